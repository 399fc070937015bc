"""Cores of hosts that ranks compute on: resources that kernels, collectives and ranks in too great a number share.

A rank is pinned to its share of a node's cores. A kernel uses all of it; the threads of a collective use the part that
was measured (`hardware_specs.cpu_kernels`), of every member's share. Each share is one resource, so that a kernel and a
collective that meet on it are slowed as the engine slows everything else. With more ranks than cores, several take
turns on one: the kernels of one rank at a time, for a slice of the system's, unless the ranks before have to wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.compute import CpuModel
from simulator.lowered import Activity, Phase
from simulator.network.model import picoseconds_of
from simulator.network.topology import Topology
from simulator.operators import Amount, Category, CollectiveCall, FloatArray, HostWork, Nothing
from simulator.program import IntArray, Program

BLOM = 0.375
"""Of the numbers of a normal sample of n in order, the i-th is on the average the quantile ``(i - BLOM) / (n + 1 -
2 BLOM)``. Blom, Statistical Estimates and Transformed Beta-Variables, 1958."""
AWAKE_S = 1e-12
"""Work of a rank that takes turns once what it waited for has come, seconds: the least there is, so that its wait ends
when it has its core again."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Shares of cores as resources, numbered behind those of the network.

    Attributes:
        first: number of the first one.
        count: how many there are.
        of_rank: number of the share that each rank is pinned to ``[world_size]``.
        collective_share: what a collective takes of a member's share while data move.
        slower: by how much longer data are under way than in a collective alone.
        latency_cores: what it takes of a core for each second in which none move.
        wait_ps: what it takes longer than alone, before any move.
        pace: by what factor each rank's kernels take longer than the mean, in two iterations and the next two
            ``[2, world_size]``.
        slice_ps: how long a rank keeps cores that another one waits for; 0: they share them all the time.
    """

    first: int
    count: int
    of_rank: IntArray
    collective_share: float
    slower: float
    latency_cores: float
    wait_ps: int
    pace: FloatArray
    slice_ps: int

    @staticmethod
    def of(topology: Topology, compute: object) -> Cores | None:
        """The cores of a placed job; None where ranks compute on GPUs.

        Args:
            topology: where ranks are.
            compute: the model of their kernels.
        """
        if not isinstance(compute, CpuModel):
            return None
        groups, first = compute.core_groups, topology.resource_count
        numbers = first + topology.node_of * groups + compute.core_group_of(topology.local_rank_of)
        of = compute.kernels
        turns = compute.takes_turns
        wait_s = of.shared_wait_s if turns else of.collective_wait_s
        pace = paces(numbers, compute.kernels.work_spread)
        wait_ps, slice_ps = picoseconds_of(np.array([wait_s, of.turn_s if turns else 0.0])).tolist()
        latency_cores = of.shared_latency_cores if turns else None
        latency_cores = of.collective_latency_cores if latency_cores is None else latency_cores
        shares = of.collective_cores, of.collective_slower, latency_cores
        return Cores(first, topology.nodes * groups, numbers, *shares, wait_ps, pace, slice_ps)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the resources."""
        return tuple(f"cores[{number}]" for number in range(self.count))

    def kernels(self, program: Program, seconds: Mapping[int, Amount]) -> dict[int, list[Activity]]:
        """Activities of all tasks that take time, one for each rank ``[P]``: each has the rank's cores to itself."""
        works = {
            task: self._kernel(program, task, value)
            for task, value in seconds.items()
            if np.any(np.asarray(value) > 0.0) and not isinstance(program.work[task], CollectiveCall)
        }
        if self.slice_ps:
            waits = (task for task, work in enumerate(program.work) if work == Nothing(Category.COMM))
            works |= {task: self._kernel(program, task, AWAKE_S) for task in waits}
        return works

    def _kernel(self, program: Program, task: int, seconds: Amount) -> list[Activity]:
        alone_s = np.broadcast_to(np.asarray(seconds, dtype=np.float64), program.rank_count)
        some_ps, other_ps = np.maximum(picoseconds_of(alone_s * self.pace[:, program.ranks]), alone_s > 0.0)
        whole, work = np.ones(1), program.work[task]
        yields = isinstance(work, HostWork) and work.collectives > 0
        return [
            Activity(
                f"{program.names[task]} [rank {rank}]",
                (Phase(0, some, self.of_rank[[rank]], whole, int(rank), yields, None if other == some else other),),
            )
            for rank, some, other in zip(program.ranks, some_ps.tolist(), other_ps.tolist(), strict=True)
        ]

    def collective(self, activity: Activity, members: Sequence[int] | IntArray) -> Activity:
        """A collective with the cores that its members' threads use.

        Where these ask for more than there is, even alone, it takes that much longer.
        """
        numbers, sharing = np.unique(self.of_rank[np.asarray(members)], return_counts=True)
        nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
        phases = [Phase(self.wait_ps, 0, *nothing)] if self.wait_ps and len(members) > 1 else []
        for phase in activity.phases:
            busy_ps = round(phase.latency_ps * max(1.0, self.latency_cores))
            posting = Phase(0, busy_ps, *nothing)
            moving = Phase(
                phase.latency_ps, round(phase.work_ps * self.slower), phase.resources, phase.usage / self.slower
            )
            if self.latency_cores:
                phases.append(_beside(posting, numbers, sharing * min(1.0, self.latency_cores)))
                moving = replace(moving, latency_ps=0)
            phases.append(_beside(moving, numbers, sharing * self.collective_share))
        return replace(activity, phases=tuple(phases))


def paces(core_of: IntArray, spread: float) -> FloatArray:
    """Factors on the work of ranks that lie, of each core one, as a normal sample of mean 1 does ``[2, ranks]``.

    Whose work is slower changes from iteration to iteration, by how much the slowest is hardly does; so here an order
    of the cores and its reverse take turns (`simulator.lowered.is_other`), and over four iterations all are equal. What
    makes them so (others on the same core of a virtual machine's host, its clock) is the core's: ranks that take turns
    on one have the same pace (`docs/decisions/100`).

    Args:
        core_of: number of the share of cores of each rank ``[ranks]``.
        spread: standard deviation.
    """
    _, number = np.unique(core_of, return_inverse=True)
    count = int(number.max()) + 1
    quantiles = (np.arange(count) + 1 - BLOM) / (count + 1 - 2 * BLOM)
    sample = np.array([NormalDist().inv_cdf(quantile) for quantile in quantiles.tolist()])
    ordered = spread * sample[np.where(number % 2 == 0, number, count - count % 2 - number)]
    return np.stack([1.0 + ordered, 1.0 - ordered])


def _beside(phase: Phase, cores: IntArray, asked: NDArray[np.floating[Any]]) -> Phase:
    """A phase that asks for so much of each share of cores; for more than there is, it takes that much longer."""
    if not phase.work_ps or not asked.any():
        return phase
    stretch = max(1.0, float(asked.max()))
    return Phase(
        phase.latency_ps,
        round(phase.work_ps * stretch),
        np.concatenate([phase.resources, cores]),
        np.concatenate([phase.usage / stretch, asked / stretch]),
    )
