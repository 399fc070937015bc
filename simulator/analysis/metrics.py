"""Iteration time: the point at which a run has settled, and the iteration time from there on.

Iteration k ends at e_k, the latest end over ranks of its tasks. A run has settled when two successive windows of 4
iterations differ by less than 0.1 %; its iteration time is (e_b - e_a) / (b - a) over the settled windows at its end.
Beside something that comes and goes by itself (another job's bursts) windows are longer: at least one of its periods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.lowered import PS_PER_S


@dataclass(frozen=True, slots=True)
class SteadyRule:
    """Says whether a run has settled; usable as the engine's ``stop``.

    Attributes:
        window: iterations per window; periods that divide it are recognised.
        tolerance: relative difference below which two durations count as equal.
        span_ps: windows are taken as often as it takes to last so long.
    """

    window: int = 4
    tolerance: float = 1e-3
    span_ps: int = 0

    def __call__(self, iteration_end_ps: Sequence[int]) -> bool:
        """Whether the last two windows take the same time, given e_0, e_1... in ps."""
        return self.settled_windows(iteration_end_ps) >= 2

    def settled_windows(self, iteration_end_ps: Sequence[int]) -> int:
        """Number of windows at the end of the run that take the same time, each against the one after it."""
        ends = [0, *(int(e) for e in iteration_end_ps)]
        window = self.window_at_end(iteration_end_ps)
        lengths = [ends[k] - ends[k - window] for k in range(len(ends) - 1, window - 1, -window)]
        settled = min(len(lengths), 1)
        while settled < len(lengths) and self.same(lengths[settled], lengths[settled - 1]):
            settled += 1
        return settled

    def window_at_end(self, iteration_end_ps: Sequence[int]) -> int:
        """Iterations in a window at the end of the run: `window`, or the multiple of it that lasts `span_ps`."""
        ends = [0, *(int(e) for e in iteration_end_ps)]
        window = self.window
        while window < len(ends) and ends[-1] - ends[-1 - window] < self.span_ps:
            window += self.window
        return window

    def same(self, one: int, two: int) -> bool:
        """Whether two durations differ by less than the tolerance (two zeros do)."""
        return abs(one - two) < self.tolerance * max(one, two) or one == two


@dataclass(frozen=True, slots=True)
class IterationTime:
    """The time of one settled iteration.

    Attributes:
        seconds: mean duration of the measured iterations.
        steady: whether the run settled; otherwise half of it was measured, or as much more as makes whole windows.
        warm_up_iterations: iterations before the measured ones.
        period_iterations: after how many iterations durations repeat within the tolerance; None when they do not.
        iterations: number of simulated iterations.
        measured_iterations: number of iterations in the mean.
    """

    seconds: float
    steady: bool
    warm_up_iterations: int
    period_iterations: int | None
    iterations: int
    measured_iterations: int

    def throughput_per_s(self, amount: float) -> float:
        """Throughput where an iteration processes ``amount``, such as samples (0 for iterations that take no time)."""
        return amount / self.seconds if self.seconds > 0 else 0.0


def iteration_time(iteration_end_ps: Sequence[int], rule: SteadyRule | None = None) -> IterationTime:
    """The iteration time of a run from its iteration ends e_0, e_1... in ps.

    Raises:
        ValueError: there is no iteration.
    """
    rule = rule or SteadyRule()
    ends = [0, *(int(e) for e in iteration_end_ps)]
    count = len(ends) - 1
    if count < 1:
        raise ValueError("the run has no iteration to measure")
    steady = rule(iteration_end_ps)
    settled = rule.settled_windows(iteration_end_ps) * rule.window_at_end(iteration_end_ps)
    measured = settled if steady else _unsettled(count, rule.window)
    durations = [ends[k] - ends[k - 1] for k in range(count - measured + 1, count + 1)]
    return IterationTime(
        seconds=sum(durations) / measured / PS_PER_S,
        steady=steady,
        warm_up_iterations=count - measured,
        period_iterations=_period(durations, rule),
        iterations=count,
        measured_iterations=measured,
    )


def _unsettled(count: int, window: int) -> int:
    """Iterations at the end of a run that did not settle that the mean is over.

    Half of them, rounded up to whole windows where the run has as many after its first iteration; else half.
    """
    half = count - count // 2
    whole = -(-half // window) * window
    return whole if whole < count else half


def _period(durations: Sequence[int], rule: SteadyRule) -> int | None:
    """The smallest divisor of the window after which the durations repeat."""
    for period in (p for p in range(1, rule.window + 1) if rule.window % p == 0 and p < len(durations)):
        if all(rule.same(durations[k], durations[k - period]) for k in range(period, len(durations))):
            return period
    return None
