"""Work on resources beside the network: links to host memory for ranks on GPUs, cores for ranks on CPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from inputs.errors import InputError
from simulator.compute import CpuModel
from simulator.lowered import Activity
from simulator.lowering.cores import Cores
from simulator.lowering.host_traffic import directions_used, host_activities, shared_tasks
from simulator.lowering.machine import Machine
from simulator.lowering.variation import Variation
from simulator.operators import Amount
from simulator.program import IntArray, Program


@dataclass(frozen=True, slots=True)
class HostLinks:
    """Traffic between GPUs and host memory or SSDs (`simulator.lowering.host_traffic`), on resources of the network."""

    machine: Machine

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the resources after the network's resources: none."""
        return ()

    def collectives(self, activities: Sequence[Activity], of_rank: IntArray) -> Sequence[Activity]:  # noqa: ARG002
        """Collectives use the network alone."""
        return activities

    def tasks(
        self,
        programs: Sequence[Program],
        seconds: Sequence[dict[int, Amount]],
        collectives: Sequence[Activity],
        evened: float,
    ) -> Iterator[tuple[int, int, list[Activity]]]:
        """Program number, task number and activities ``[P]`` of each task whose traffic may meet other traffic.

        Other traffic is from other streams, ranks, collectives and jobs.

        Args:
            seconds: durations of tasks alone, by program and task.
            collectives: the collectives, lowered.
            evened: fraction by which differences between ranks move to their mean, 0 to 1.
        """
        used = directions_used(collectives, self.machine)
        for number, program in enumerate(programs):
            for task in shared_tasks(program, self.machine, used):
                yield number, task, list(host_activities(program, task, self.machine, seconds[number][task], evened))


@dataclass(frozen=True, slots=True)
class OnCores:
    """Kernels and collectives on the cores of hosts (`simulator.lowering.cores`)."""

    cores: Cores

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the resources after the network's resources: shares of cores."""
        return self.cores.names

    def collectives(self, activities: Sequence[Activity], of_rank: IntArray) -> Sequence[Activity]:
        """Instances of a collective with the cores of their members' threads.

        Args:
            activities: the instances on the network alone.
            of_rank: number of the instance of each rank ``[world_size]``, -1 for ranks that take no part.
        """
        members = [(of_rank == instance).nonzero()[0] for instance in range(len(activities))]
        return [self.cores.collective(each, ranks) for each, ranks in zip(activities, members, strict=True)]

    def tasks(
        self,
        programs: Sequence[Program],
        seconds: Sequence[dict[int, Amount]],
        collectives: Sequence[Activity],  # noqa: ARG002 - one signature for all machines
        evened: float,  # noqa: ARG002
    ) -> Iterator[tuple[int, int, list[Activity]]]:
        """Every task that takes time; as `HostLinks.tasks`."""
        for number, program in enumerate(programs):
            for task, alone_s in list(seconds[number].items()):
                if (alone_s > 0.0) if isinstance(alone_s, float) else (alone_s > 0.0).any():
                    yield number, task, self.cores.kernel(program, task, alone_s)


SharedWork: TypeAlias = HostLinks | OnCores
"""Turns tasks into activities that use resources beside the network, and adds these to collectives."""


def shared_work_of(machine: Machine, variation: Variation) -> SharedWork:
    """The work beside the network on a machine.

    Raises:
        InputError: durations vary on CPUs, whose kernels share cores.
    """
    if not isinstance(machine.compute, CpuModel):
        return HostLinks(machine)
    if variation.varies:
        raise InputError("kernels on CPUs share cores, and do not vary", key="variation", expected="no jitter")
    return OnCores(Cores.of(machine.topology, machine.compute))
