"""Breakdown of every rank's own iterations: a row per rank and step of a measured trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.analysis.breakdown import break_down
from simulator.analysis.idle import IdleAnalysis
from simulator.analysis.intervals import union_length
from simulator.analysis.window import Window
from simulator.categories import Category
from simulator.engine.records import EngineRun
from simulator.lowered import PS_PER_S
from simulator.program import Program


@dataclass(frozen=True, slots=True)
class RankWindow:
    """The stretch of time one rank calls an iteration."""

    rank: int
    name: str
    window: Window


@dataclass(frozen=True, slots=True)
class StepRow:
    """The step of one rank, in seconds.

    compute + exposed_comm + exposed_copy + idle = step; idle_host + idle_kernel_wait + idle_dependency = idle.

    Attributes:
        rank: global rank.
        step: name of the step.
        step_s: its length.
        compute_s: any compute task runs.
        exposed_comm_s: a collective is open and nothing is computed.
        exposed_waiting_s: the part of it before the last rank arrives.
        exposed_copy_s: a copy runs and nothing is computed nor communicated.
        idle_s: none of these.
        idle_host_s: idle because the host had not launched the next work.
        idle_kernel_wait_s: idle though everything was there: launch latency.
        idle_dependency_s: idle because the next work waited for another stream.
        comm_s: sum of the durations of collectives.
        copy_s: sum of the durations of copies.
        host_s: sum of the durations of host tasks.
        waiting_s: part of comm before the last rank's arrival.
    """

    rank: int
    step: str
    step_s: float
    compute_s: float
    exposed_comm_s: float
    exposed_waiting_s: float
    exposed_copy_s: float
    idle_s: float
    idle_host_s: float
    idle_kernel_wait_s: float
    idle_dependency_s: float
    comm_s: float
    copy_s: float
    host_s: float
    waiting_s: float


def step_table(programs: Sequence[Program], result: EngineRun, windows: Sequence[RankWindow]) -> tuple[StepRow, ...]:
    """A row per window, in the order given.

    Args:
        programs: the program of each group, in the run's group order.
        result: the run, with one recorded iteration.
        windows: steps of the ranks.
    """
    places = {int(rank): (g, c) for g, program in enumerate(programs) for c, rank in enumerate(program.ranks)}
    ranks: dict[int, _Rank] = {}
    rows = []
    for window in windows:
        if window.rank not in ranks:
            group, column = places[window.rank]
            ranks[window.rank] = _Rank(programs[group], result, group, column)
        rows.append(ranks[window.rank].row(window))
    return tuple(rows)


class _Rank:
    """One rank of a run by itself."""

    def __init__(self, program: Program, result: EngineRun, group: int, column: int) -> None:
        record = result.records[-1]
        times = record.groups[group].of(slice(column, column + 1))
        self._program = replace(program, ranks=program.ranks[column : column + 1])
        self._result = replace(result, records=(replace(record, groups=(times,)),))
        self._times = times
        self._idle = IdleAnalysis(program, times, 0)
        categories = np.array(program.categories)
        self._compute = np.flatnonzero(categories == Category.COMPUTE)
        self._comm = np.flatnonzero(categories == Category.COMM)

    def row(self, window: RankWindow) -> StepRow:
        """The rank's row of a window."""
        broken = break_down([self._program], self._result, window=window.window)
        causes = self._idle.causes(window.window)

        def seconds(name: str) -> float:
            return int(getattr(broken, f"{name}_ps")[0]) / PS_PER_S

        return StepRow(
            rank=window.rank,
            step=window.name,
            step_s=window.window.length_ps / PS_PER_S,
            compute_s=seconds("compute"),
            exposed_comm_s=seconds("exposed_comm"),
            exposed_waiting_s=self._exposed_waiting_ps(window.window) / PS_PER_S,
            exposed_copy_s=seconds("exposed_copy"),
            idle_s=seconds("idle"),
            idle_host_s=causes.host_ps / PS_PER_S,
            idle_kernel_wait_s=causes.kernel_wait_ps / PS_PER_S,
            idle_dependency_s=causes.dependency_ps / PS_PER_S,
            comm_s=seconds("comm"),
            copy_s=seconds("copy"),
            host_s=seconds("host"),
            waiting_s=seconds("waiting"),
        )

    def _exposed_waiting_ps(self, window: Window) -> int:
        """Time in which the rank waits in a collective and computes nothing."""
        start, end = self._times.start_ps[:, 0], self._times.end_ps[:, 0]
        waited = start + self._times.waiting_ps[:, 0]
        computed = (start[self._compute], end[self._compute])
        both = (np.append(computed[0], start[self._comm]), np.append(computed[1], waited[self._comm]))
        with_waiting, alone = (
            union_length(*(side.clip(window.start_ps, window.end_ps)[None, :] for side in sides))
            for sides in (both, computed)
        )
        return int(with_waiting[0]) - int(alone[0])
