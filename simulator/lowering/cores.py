"""Cores of hosts that ranks compute on: resources that kernels and collectives share.

A rank is pinned to its share of a node's cores, which is one resource. A kernel uses all of it; while the data of a
collective move, the collective's threads use a measured part of every member's share (`hardware_specs.cpu_kernels`).
With more ranks than cores, several ranks share one resource. Where users of a resource ask for more than it has, the
engine slows them as it slows everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.compute import CpuModel
from simulator.lowered import Activity, Phase, picoseconds_of
from simulator.network.topology import Topology
from simulator.operators import Amount, HostWork
from simulator.program import IntArray, Program


@dataclass(frozen=True, slots=True)
class Cores:
    """Shares of cores as resources, numbered behind those of the network.

    Attributes:
        first: number of the first share.
        count: number of shares.
        of_rank: number of the share that each rank is pinned to ``[world_size]``.
        collective_share: fraction of a member's share that a collective uses while its data move.
        slower: factor on the time in which data move, from the last member's arrival on, against a collective alone.
        wait_ps: latency of each collective within an iteration beyond that of a collective alone.
        posting_ps: core time that a rank spends for each collective when it issues it.
    """

    first: int
    count: int
    of_rank: IntArray
    collective_share: float
    slower: float
    wait_ps: int
    posting_ps: int

    @staticmethod
    def of(topology: Topology, compute: CpuModel) -> Cores:
        """The cores of a placed job."""
        groups, first, kernels = compute.core_groups, topology.resource_count, compute.kernels
        wait_s = kernels.shared_wait_s if compute.shares_cores else kernels.collective_wait_s
        wait_ps, posting_ps = picoseconds_of(np.array([wait_s, kernels.posting_s])).tolist()
        return Cores(
            first=first,
            count=topology.nodes * groups,
            of_rank=first + topology.node_of * groups + compute.core_group_of(topology.local_rank_of),
            collective_share=kernels.collective_cores,
            slower=kernels.collective_slower,
            wait_ps=wait_ps,
            posting_ps=posting_ps,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the resources."""
        return tuple(f"cores[{number}]" for number in range(self.count))

    def kernel(self, program: Program, task: int, seconds: Amount) -> list[Activity]:
        """Activities of a task on each rank ``[P]``, which takes ``seconds`` (a scalar, or ``[P]``) alone."""
        alone_s = np.broadcast_to(np.asarray(seconds, dtype=np.float64), program.rank_count)
        work_ps = np.maximum(picoseconds_of(alone_s), alone_s > 0.0)
        work = program.work[task]
        if isinstance(work, HostWork):
            work_ps = work_ps + np.rint(np.asarray(work.collectives) * self.posting_ps).astype(np.int64)
        return [
            Activity(
                f"{program.names[task]} [rank {rank}]", (Phase(0, each, self.of_rank[rank : rank + 1], np.ones(1)),)
            )
            for rank, each in zip(program.ranks.tolist(), work_ps.tolist(), strict=True)
        ]

    def collective(self, activity: Activity, members: Sequence[int] | IntArray) -> Activity:
        """A collective with the cores that its members' threads use.

        Args:
            activity: the collective alone.
            members: its ranks.
        """
        numbers, sharing = np.unique(self.of_rank[np.asarray(members)], return_counts=True)
        asked = sharing * self.collective_share
        stretch = max(1.0, float(asked.max(initial=0.0)))  # members on one share ask for more than it has
        phases = []
        for phase in activity.phases:
            moving_ps, usage = round(phase.work_ps * self.slower), np.minimum(1.0, phase.usage / self.slower)
            if moving_ps and asked.any():
                resources = np.concatenate([phase.resources, numbers])
                both = np.concatenate([usage, asked]) / stretch
                phases.append(Phase(phase.latency_ps, round(moving_ps * stretch), resources, both))
            else:
                phases.append(Phase(phase.latency_ps, moving_ps, phase.resources, usage))
        if self.wait_ps and len(members) > 1:
            nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
            phases.insert(0, Phase(self.wait_ps, 0, *nothing))
        return Activity(activity.label, tuple(phases), activity.release_phase)
