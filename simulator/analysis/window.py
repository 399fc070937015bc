"""The stretch of time over which a run is analysed: one iteration of a settled run."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.engine.records import IterationRecord, RunResult


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


def window_of(result: RunResult, iteration: int) -> Window:
    """The window of ``iteration``: from the end of the iteration before it to its own end.

    It is empty should a controller let the iteration end first.
    """
    ends = result.iteration_end_ps
    start_ps = int(ends[iteration - 1]) if iteration else 0
    return Window(iteration, start_ps, max(start_ps, int(ends[iteration])))


def measured_window(result: RunResult) -> Window:
    """The window of the last recorded iteration that has a recorded successor (the last one when there is but one).

    The successor's early tasks (a prefetched input) belong to the window too, so the very last recorded iteration
    would look idler than it is.

    Raises:
        ValueError: nothing was recorded.
    """
    if not result.records:
        raise ValueError("the run recorded no iteration: there is nothing to analyse")
    return window_of(result, result.records[-2 if len(result.records) > 1 else -1].iteration)


def record_of(result: RunResult, iteration: int) -> IterationRecord:
    """The record of ``iteration``.

    Raises:
        ValueError: that iteration was not recorded.
    """
    for record in result.records:
        if record.iteration == iteration:
            return record
    raise ValueError(f"iteration {iteration} was not recorded; recorded: {[r.iteration for r in result.records]}")
