"""Advice on the number of devices: the best size of a sweep by an objective, and the knee of its throughput.

The knee is the size with the largest speedup times efficiency, which is throughput squared over devices (Eager,
Zahorjan and Lazowska, "Speedup versus efficiency in parallel systems", IEEE Trans. Computers 38, 1989). At the knee
1 % more devices add half a per cent of throughput. The knee has no parameter, and larger sizes that are worse do not
move it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from inputs.errors import InfeasibleError, InputError, nearest_name
from scenarios.family import family_of
from scenarios.summary_keys import interval_keys, price_key
from scenarios.sweep import Row
from scenarios.sweep_plan import SweepPlan
from simulator.analysis import rate_key

Objective = Literal["throughput_per_gpu", "cost", "time_to_target"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)


@dataclass(frozen=True, slots=True)
class SizeResult:
    """A size that ran.

    Attributes:
        size: the swept value: nodes or ranks.
        throughput_per_s: throughput in the unit of the headline.
        value: objective: throughput of a rank, price of a million units (USD), or time to the target (seconds).
        value_low: objective at the less favourable end of the throughput's interval; None without an interval.
        value_high: objective at the more favourable end; None without an interval.
    """

    size: int
    world_size: int
    throughput_per_s: float
    value: float
    value_low: float | None
    value_high: float | None


@dataclass(frozen=True, slots=True)
class SizeGap:
    """A size without a result, and its reason."""

    size: int
    world_size: int
    reason: str


@dataclass(frozen=True, slots=True)
class NeighbourSize:
    """A neighbour of the best size.

    Attributes:
        behind: distance of its value to the best value, as a fraction of the best value.
        equal: whether its value is inside the interval of the best value.
    """

    size: int
    behind: float
    equal: bool


@dataclass(frozen=True, slots=True)
class SizeAdvice:
    """Advice on the number of devices.

    Attributes:
        axis: the swept key, ``nodes`` or ``world_size``.
        unit: unit of throughput, a plural noun.
        target: amount to train, in the same unit; None: not asked for.
        results: sizes that ran, ascending.
    """

    name: str
    axis: str
    unit: str
    rank_name: str
    scaling: str | None
    objective: Objective
    target: float | None
    results: tuple[SizeResult, ...]
    gaps: tuple[SizeGap, ...]

    @property
    def best(self) -> SizeResult:
        """The best size by the objective; the smallest of equal sizes."""
        return min(self.results, key=lambda found: (self._badness(found.value), found.size))

    @property
    def knee(self) -> SizeResult:
        """The size with the largest speedup times efficiency; the smallest of equal sizes."""
        return max(self.results, key=lambda found: (found.throughput_per_s**2 / found.world_size, -found.size))

    @property
    def largest(self) -> SizeResult:
        """The largest size that ran."""
        return self.results[-1]

    @property
    def neighbours(self) -> tuple[NeighbourSize, ...]:
        """The next smaller and the next larger size that ran."""
        place = self.results.index(self.best)
        beside = (*self.results[max(0, place - 1) : place], *self.results[place + 1 : place + 2])
        return tuple(NeighbourSize(found.size, self.behind(found), self.within(found)) for found in beside)

    def behind(self, found: SizeResult) -> float:
        """Distance of a size's value to the best value, as a fraction of the best value."""
        return abs(found.value / self.best.value - 1)

    def within(self, found: SizeResult) -> bool:
        """Whether a size's value is inside the interval of the best value."""
        least = self.best.value_low
        return least is not None and self._badness(found.value) <= self._badness(least)

    def _badness(self, value: float) -> float:
        """The value with a sign for which less is better."""
        return -value if self.objective == "throughput_per_gpu" else value

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "schema": 1,
            "name": self.name,
            "axis": self.axis,
            "scaling": self.scaling,
            "objective": self.objective,
            "unit": self.unit,
            "target": self.target,
            "best": self.best.size,
            "knee": self.knee.size,
            "largest_is_best": self.best is self.largest,
            "neighbours": [asdict(neighbour) for neighbour in self.neighbours],
            "sizes": [asdict(found) for found in self.results],
            "gaps": [asdict(gap) for gap in self.gaps],
        }


def check_objective(plan: SweepPlan, objective: str, target: float | None) -> Objective:
    """The objective, checked before anything runs.

    Raises:
        InputError: no such objective, a missing price or target, a target without effect, or an axis other than sizes.
    """
    known = next((name for name in OBJECTIVES if name == objective), None)
    if known is None:
        near = nearest_name(objective, OBJECTIVES)
        raise InputError(
            "no such objective", file="--objective", given=objective, expected=", ".join(OBJECTIVES), nearest=near
        )
    across, beside = plan.grid.across, plan.grid.beside
    if beside or not across.is_size:
        given = ", ".join(axis.key for axis in plan.grid.axes)
        expected = "one list of sizes, e.g. nodes=1,2,4,...,64"
        raise InputError(
            "advice on the number of devices needs sizes only", file="--over", given=given, expected=expected
        )
    if known == "cost" and plan.base.scenario.cost is None:
        raise plan.base.document.error(
            ("cost", "gpu_hour_usd"),
            "the objective cost needs the price of a GPU for an hour",
            expected="USD, e.g. --set cost.gpu_hour_usd=2.5",
        )
    _check_target(known, target, family_of(plan.base).unit)
    return known


def _check_target(objective: Objective, target: float | None, unit: str) -> None:
    """Raise `InputError` if a needed target is missing, or if a target has no effect."""
    expected = f"an amount of {unit} above 0, e.g. --target 4e9"
    if objective == "time_to_target" and target is None:
        raise InputError("the objective time_to_target needs the amount to train", file="--target", expected=expected)
    if objective != "time_to_target" and target is not None:
        raise InputError(
            f"has no effect with --objective {objective}", file="--target", given=target, expected="no target"
        )
    if target is not None and not 0 < target < float("inf"):
        raise InputError("impossible value", file="--target", given=target, expected=expected)


def size_advice(plan: SweepPlan, rows: Sequence[Row], objective: Objective, target: float | None) -> SizeAdvice:
    """Advice from the rows of a sweep over sizes.

    Raises:
        InfeasibleError: no size runs; with the reason of the largest size.
    """
    across, unit = plan.grid.across, family_of(plan.base).unit
    sized = [(int(across.values[point.place]), row) for point, row in zip(plan.points, rows, strict=True)]
    results = [_result(plan, size, row, objective, target) for size, row in sized if row["status"] == "ok"]
    gaps = [SizeGap(size, row["world_size"], row["message"]) for size, row in sized if row["status"] != "ok"]
    if not results:
        raise InfeasibleError(f"none of {len(gaps)} sizes runs; {across.key}={gaps[-1].size}: {gaps[-1].reason}")
    rank_name = plan.base.cluster.node.rank_name
    return SizeAdvice(
        plan.base.name, across.key, unit, rank_name, plan.scaling, objective, target, tuple(results), tuple(gaps)
    )


def _result(plan: SweepPlan, size: int, row: Row, objective: Objective, target: float | None) -> SizeResult:
    """Result of a size, its objective at the throughput and at both ends of its interval."""
    unit, ranks = family_of(plan.base).unit, int(row["world_size"])
    rate, price = float(row[rate_key(unit)]), row[price_key(unit)]

    def value(at_rate: float) -> float:
        if objective == "throughput_per_gpu":
            return at_rate / ranks
        return (target or 0.0) / at_rate if objective == "time_to_target" else price * rate / at_rate

    *_, low, high = (row[key] for key in interval_keys(unit))
    value_low, value_high = (None if end is None else value(end) for end in (low, high))
    return SizeResult(size, ranks, rate, value(rate), value_low, value_high)
