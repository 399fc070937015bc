"""Breakdown of the time of an iteration on every rank.

compute + exposed_comm + exposed_copy + idle = the window, exactly, in integer picoseconds: compute is the time any
compute task runs, exposed_comm the further time any collective is open (from the rank's arrival), exposed_copy the
further time any copy runs, idle the rest. Host time is in none of them; it stands beside, as do plain totals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.analysis.input_waiting import input_waits
from simulator.analysis.intervals import union_length
from simulator.analysis.window import Window, measured_window
from simulator.categories import Category
from simulator.engine.records import EngineRun, GroupTimes
from simulator.program import IntArray, Program

CLASSES_PER_BLOCK = 2048
"""Classes of ranks analysed at a time: bounds the working memory, a few tens of MB for 300 tasks."""

_PRECEDENCE = (Category.COMPUTE, Category.COMM, Category.COPY)
_WORKING = (*_PRECEDENCE, Category.HOST)


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Times in ps of each rank in the window, all ``[W]``.

    Attributes:
        window: the window they add up to.
        ranks: global rank numbers, groups one after the other as in the run's result.
        compute_ps: any compute task runs.
        exposed_comm_ps: a collective is open and nothing is computed.
        exposed_copy_ps: a copy runs and nothing is computed nor communicated.
        idle_ps: none of these.
        comm_ps: sum of the durations of collectives, from arrival to end.
        copy_ps: sum of the durations of copies.
        host_ps: sum of the durations of host tasks.
        waiting_ps: part of ``comm_ps`` before the last member's arrival.
        input_waiting_ps: part of ``idle_ps`` in which the next batch has not come in, and nothing else is missing.
    """

    window: Window
    ranks: IntArray
    compute_ps: IntArray
    exposed_comm_ps: IntArray
    exposed_copy_ps: IntArray
    idle_ps: IntArray
    comm_ps: IntArray
    copy_ps: IntArray
    host_ps: IntArray
    waiting_ps: IntArray
    input_waiting_ps: IntArray

    @property
    def exposed_comm_share(self) -> float:
        """Share of the window in which ranks communicate and do not compute, mean over ranks."""
        return float(self.exposed_comm_ps.mean()) / max(self.window.length_ps, 1)

    def of(self, ranks: range) -> Breakdown:
        """The same of some of the ranks."""
        taken = (self.ranks >= ranks.start) & (self.ranks < ranks.stop)
        times = {f"{name}_ps": getattr(self, f"{name}_ps")[taken] for name in (*PARTS, *TOTALS)}
        return Breakdown(window=self.window, ranks=self.ranks[taken], **times)


PARTS = ("compute", "exposed_comm", "exposed_copy", "idle")
"""The parts that add up to the window; the `Breakdown` attributes less their unit."""

TOTALS = ("comm", "copy", "host", "waiting", "input_waiting")
"""The totals that stand beside the parts."""


def break_down(programs: Sequence[Program], result: EngineRun, *, window: Window | None = None) -> Breakdown:
    """Break the window down on every rank.

    Args:
        programs: the program of each group, in the run's group order.
        result: the run; needs the window's iteration recorded.
        window: default: `measured_window`.

    Returns:
        One column per rank, in group order.
    """
    window = window or measured_window(result)
    rows = np.concatenate([_of_group(program, group, result, window) for group, program in enumerate(programs)], axis=1)
    return Breakdown(window, np.concatenate([p.ranks for p in programs]), *rows)


def _of_group(program: Program, group: int, result: EngineRun, window: Window) -> IntArray:
    """The times of a group's ranks in the order of the attributes of `Breakdown` ``[9, P]``."""
    blocks = [_rows(intervals, waits, window) for intervals, waits in _blocks(program, group, result, window)]
    return result.records[-1].groups[group].classes.on_ranks(np.concatenate(blocks, axis=1))


@dataclass(frozen=True, slots=True)
class _Part:
    """A group in one recorded iteration, with the numbers of the tasks that reach into the window, by category."""

    times: GroupTimes
    tasks: dict[Category, IntArray]


@dataclass(frozen=True, slots=True)
class _Intervals:
    """Tasks of one category on a block of classes, clipped to the window, each ``[C, N]``.

    ``begins`` is when the last member of a collective arrived; elsewhere it equals ``starts``.
    """

    starts: IntArray
    begins: IntArray
    ends: IntArray

    def total(self) -> IntArray:
        """Sum of the durations ``[C]``."""
        total: IntArray = (self.ends - self.starts).sum(axis=1)
        return total

    def waiting(self) -> IntArray:
        """Sum of the times before the last arrival ``[C]``."""
        waiting: IntArray = (self.begins - self.starts).sum(axis=1)
        return waiting


def _blocks(
    program: Program, group: int, result: EngineRun, window: Window
) -> Iterator[tuple[dict[Category, _Intervals], _Intervals]]:
    """Intervals of the group's classes of ranks by category, and of waiting for input, a block of classes at a time."""
    parts = [
        _Part(record.groups[group], _tasks_by_category(program, record.groups[group], window))
        for record in result.records
        if record.iteration >= window.iteration
    ]
    begins, ends = (
        times.clip(window.start_ps, window.end_ps).T for times in input_waits(program, group, result, window.iteration)
    )
    for first in range(0, begins.shape[0], CLASSES_PER_BLOCK):
        columns = slice(first, first + CLASSES_PER_BLOCK)
        waits = _Intervals(begins[columns], begins[columns], ends[columns])
        yield {category: _intervals(parts, category, columns, window) for category in _WORKING}, waits


def _tasks_by_category(program: Program, times: GroupTimes, window: Window) -> dict[Category, IntArray]:
    """Numbers of the tasks that start in the window on some rank."""
    starts_inside = times.class_start_ps.min(axis=1) < window.end_ps
    categories = np.array(program.categories)
    return {category: np.flatnonzero(starts_inside & (categories == category)) for category in _WORKING}


def _intervals(parts: Sequence[_Part], category: Category, columns: slice, window: Window) -> _Intervals:
    """Gather the rows of ``category``, classes first."""

    def gathered(name: str) -> IntArray:
        return np.concatenate([getattr(part.times, f"class_{name}")[part.tasks[category], columns] for part in parts])

    def clipped(times_ps: IntArray) -> IntArray:
        return np.ascontiguousarray(times_ps.clip(window.start_ps, window.end_ps).T)

    starts = gathered("start_ps")
    return _Intervals(clipped(starts), clipped(starts + gathered("waiting_ps")), clipped(gathered("end_ps")))


def _rows(intervals: dict[Category, _Intervals], waits: _Intervals, window: Window) -> IntArray:
    """The times of a block in the order of the attributes of `Breakdown` ``[9, C]``."""
    busy = [intervals[category] for category in _PRECEDENCE]
    compute, with_comm, with_copy = (_covered(busy[:count]) for count in (1, 2, 3))
    parts = [compute, with_comm - compute, with_copy - with_comm, window.length_ps - with_copy]
    totals = [intervals[category].total() for category in (Category.COMM, Category.COPY, Category.HOST)]
    input_waiting = _covered([*busy, waits]) - with_copy
    return np.stack([*parts, *totals, intervals[Category.COMM].waiting(), input_waiting])


def _covered(intervals: Sequence[_Intervals]) -> IntArray:
    """Time in which any of them is open ``[C]``."""
    return union_length(
        np.concatenate([part.starts for part in intervals], axis=1),
        np.concatenate([part.ends for part in intervals], axis=1),
    )
