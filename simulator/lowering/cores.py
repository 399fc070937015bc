"""Cores of hosts that ranks compute on: resources that kernels, collectives and ranks in too great a number share.

A rank is pinned to its share of a node's cores. A kernel uses all of it; while data move the threads of a collective
use the part that was measured (`hardware_specs.cpu_kernels`), of every member's share. They take all of it when a rank
with cores of its own issues the collective, and a part while no data move where ranks take turns. Each share is one
resource, so that a kernel and a collective that meet on it are slowed as the engine slows everything else. With more
ranks than cores, several take turns on one: the kernels of one rank at a time, for a slice of time, unless the ranks
before have to wait. Lookups of tables ask for a part of what the caches of a node deliver, too: those of ranks on
several cores slow each other where these parts are more than all (`docs/decisions/129`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.compute import CpuModel
from simulator.lowered import STALL_PERIOD, Activity, Phase
from simulator.network.model import picoseconds_of
from simulator.network.topology import Topology
from simulator.operators import Amount, Category, CollectiveCall, EmbeddingLookup, FloatArray, HostWork, Nothing
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
        slower: by how much longer data are under way, from the last member's arrival on, than in a collective alone.
        latency_cores: what it takes of a core for each second in which none move.
        turning_ps: what its threads take of one besides before data move, of ranks that take turns.
        latency_weight: of its part of a core beside a kernel's weight of 1, while none move.
        moving_weight: the same while data move.
        wait_ps: what it takes longer than alone, before any move, in the mean.
        stalls: whether one of `STALL_PERIOD` iterations has all of that.
        compute: the model of kernels on them.
        slice_ps: how long a rank keeps cores that another one waits for; 0: they share them all the time.
        posting_ps: what threads take of a rank's cores for each collective when it issues it.
        system_share: what the system takes of them for each second that kernels work.
        node_of: node of each rank ``[world_size]``; its caches are a resource, numbered behind shares of cores.
        lookup_share: what lookups of a rank ask for of its node's caches.
    """

    first: int
    count: int
    of_rank: IntArray
    collective_share: float
    slower: float
    latency_cores: float
    turning_ps: int
    latency_weight: float
    moving_weight: float
    wait_ps: int
    stalls: bool
    compute: CpuModel
    slice_ps: int
    posting_ps: int
    system_share: float
    node_of: IntArray
    lookup_share: float

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
        if turns:
            turning_s = of.posting_s if of.shared_posting_s is None else of.shared_posting_s
            times_s = [of.shared_wait_s, of.turn_s, 0.0, turning_s]
        else:
            times_s = [of.collective_wait_s, 0.0, of.posting_s, 0.0]
        wait_ps, slice_ps, posting_ps, turning_ps = picoseconds_of(np.array(times_s)).tolist()
        return Cores(
            first=first,
            count=topology.nodes * groups,
            of_rank=numbers,
            collective_share=of.collective_cores,
            slower=of.collective_slower * (1.0 - (of.shared_overlap if turns else of.overlap)),
            latency_cores=0.0 if posting_ps or turning_ps else of.collective_latency_cores,
            turning_ps=turning_ps,
            latency_weight=1.0 / of.kernel_share_posting - 1.0,
            moving_weight=1.0 / of.kernel_share_moving - 1.0,
            wait_ps=wait_ps,
            stalls=not turns,
            compute=compute,
            slice_ps=slice_ps,
            posting_ps=posting_ps,
            system_share=of.system_share,
            node_of=topology.node_of,
            lookup_share=compute.lookup_share,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the resources: shares of cores, then caches of nodes where lookups share any."""
        caches = int(self.node_of.max()) + 1 if self.lookup_share else 0
        return (
            *(f"cores[{number}]" for number in range(self.count)),
            *(f"caches[{number}]" for number in range(caches)),
        )

    def kernels(
        self, program: Program, seconds: Mapping[int, Amount], moving_s: Sequence[float]
    ) -> dict[int, list[Activity]]:
        """Activities of all tasks that take time, one for each rank ``[P]``: each has the rank's cores to itself.

        Args:
            program: whose tasks.
            seconds: what they take, by number.
            moving_s: for how long the data of each collective of an iteration are under way alone.
        """
        own = {task: value for task, value in seconds.items() if not isinstance(program.work[task], CollectiveCall)}
        work_s = sum(float(np.mean(value)) for value in own.values())
        spread = self.compute.pace_spread(work_s, self.compute.threads_s(moving_s))
        pace = paces(self.of_rank, spread)[:, program.ranks]
        works = {
            task: self._kernel(program, task, value, pace)
            for task, value in own.items()
            if np.any(np.asarray(value) > 0.0)
        }
        if self.slice_ps:
            waits = (task for task, work in enumerate(program.work) if work == Nothing(Category.COMM))
            works |= {task: self._kernel(program, task, AWAKE_S, pace) for task in waits}
        return works

    def _kernel(self, program: Program, task: int, seconds: Amount, pace: FloatArray) -> list[Activity]:
        alone_s = np.broadcast_to(np.asarray(seconds, dtype=np.float64), program.rank_count)
        work_ps = np.maximum(picoseconds_of(alone_s * pace * (1.0 + self.system_share)), alone_s > 0.0)
        work = program.work[task]
        posting_ps = round(work.collectives * self.posting_ps) if isinstance(work, HostWork) else 0
        some_ps, other_ps = work_ps + posting_ps
        looks_up = isinstance(work, EmbeddingLookup) and self.lookup_share > 0.0
        usage = np.array([1.0, self.lookup_share] if looks_up else [1.0])
        return [
            Activity(
                f"{program.names[task]} [rank {rank}]",
                (
                    Phase(
                        0,
                        some,
                        np.array([self.of_rank[rank], self.first + self.count + self.node_of[rank]][: len(usage)]),
                        usage,
                        int(rank) if self.slice_ps else -1,
                        other_work_ps=None if other == some else other,
                    ),
                ),
            )
            for rank, some, other in zip(program.ranks.tolist(), some_ps.tolist(), other_ps.tolist(), strict=True)
        ]

    def collective(self, activity: Activity, members: Sequence[int] | IntArray, number: int) -> Activity:
        """A collective with the cores that its members' threads use.

        Where these ask for more than there is, even alone, it takes that much longer. Of ranks with cores of their own
        one in `STALL_PERIOD` stalls: threads that are woken up wait for the system's next look at who has a core
        (`docs/decisions/122`, `docs/decisions/124`).

        Args:
            activity: the collective alone.
            members: its ranks.
            number: of the collective among those of an iteration, which stall by turns.
        """
        numbers, sharing = np.unique(self.of_rank[np.asarray(members)], return_counts=True)
        nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
        phases = []
        if self.wait_ps and len(members) > 1 and self.stalls:
            phases.append(Phase(STALL_PERIOD * self.wait_ps, 0, *nothing, stalls_in=number % STALL_PERIOD))
        elif self.wait_ps and len(members) > 1:
            phases.append(Phase(self.wait_ps, 0, *nothing))
        for which, phase in enumerate(activity.phases):
            work_ps = self.latency_cores * phase.latency_ps + (0 if which else self.turning_ps)
            busy_ps = round(max(phase.latency_ps, work_ps))
            busy = Phase(0, busy_ps, *nothing)
            usage = np.minimum(1.0, phase.usage / self.slower)
            moving = Phase(phase.latency_ps, round(phase.work_ps * self.slower), phase.resources, usage)
            if work_ps:
                asked = sharing * work_ps / busy_ps
                phases.append(_beside(busy, numbers, asked, self.latency_weight))
                moving = replace(moving, latency_ps=0)
            phases.append(_beside(moving, numbers, sharing * self.collective_share, self.moving_weight))
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


def _beside(phase: Phase, cores: IntArray, asked: NDArray[np.floating[Any]], weight: float) -> Phase:
    """A phase that asks for so much of each share of cores; for more than there is, it takes that much longer."""
    if not phase.work_ps or not asked.any():
        return phase
    stretch = max(1.0, float(asked.max()))
    return Phase(
        phase.latency_ps,
        round(phase.work_ps * stretch),
        np.concatenate([phase.resources, cores]),
        np.concatenate([phase.usage / stretch, asked / stretch]),
        weight=weight,
    )
