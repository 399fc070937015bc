"""The stretch of time over which a run is analysed: one iteration of a settled run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.engine.records import EngineRun, IterationRecord

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Window:
    """The time ``(start_ps, end_ps]`` that belongs to one iteration.

    Attributes:
        iteration: its number.
        start_ps: end of the iteration before it (0 for the first).
        end_ps: its end, the latest end over ranks of its tasks.
    """

    iteration: int
    start_ps: int
    end_ps: int

    @property
    def length_ps(self) -> int:
        """Duration in ps."""
        return self.end_ps - self.start_ps


def window_of(result: EngineRun, iteration: int) -> Window:
    """The window of ``iteration``: from the end of the iteration before it to its own end.

    It is empty should a controller let the iteration end first.
    """
    ends = result.iteration_end_ps
    start_ps = int(ends[iteration - 1]) if iteration else 0
    return Window(iteration, start_ps, max(start_ps, int(ends[iteration])))


def measured_window(result: EngineRun) -> Window:
    """The window of the last recorded iteration of which everything that ran in it is recorded.

    Later iterations start early (the host runs ahead, inputs are prefetched), and their early tasks belong to the
    window. A recorded iteration that starts after the window shows that no later one reaches into it. Where no
    iteration is followed by such a one, the window is that of the first recorded iteration, which misses least.

    Raises:
        ValueError: nothing was recorded.
    """
    if not result.records:
        raise ValueError("the run recorded no iteration: there is nothing to analyse")
    starts = [min(int(g.class_start_ps.min(initial=_NEVER)) for g in record.groups) for record in result.records]
    for position in range(len(starts) - 2, -1, -1):
        window = window_of(result, result.records[position].iteration)
        if starts[-1] >= window.end_ps:
            return window
    return window_of(result, result.records[0].iteration)


def record_of(result: EngineRun, iteration: int) -> IterationRecord:
    """The record of ``iteration``.

    Raises:
        ValueError: that iteration was not recorded.
    """
    for record in result.records:
        if record.iteration == iteration:
            return record
    raise ValueError(f"iteration {iteration} was not recorded; recorded: {[r.iteration for r in result.records]}")
