"""Results of a sweep, as its page and its tables show them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from reports.numbers import singular
from reports.size_notes import SizeNote, size_notes


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """One point of a sweep; results are None unless the status is ``ok``.

    Attributes:
        world_size: ranks.
        nodes: nodes they fill.
        global_batch_size: samples per iteration; None: not known, the point is refused.
        status: ``ok``, ``infeasible`` (does not fit), ``refused`` (its values do not go together) or ``error``.
        throughput_per_s: throughput, in the unit of the study, per second.
        efficiency: throughput per rank, divided by its value at the first point of the line that ran.
        million_usd: price of a million of the unit, USD; None without a price of GPUs.
        shares: each part of the iteration (`simulator.analysis.breakdown.PARTS`) as a share, mean over ranks.
        bound: joint class that bounds the iteration, and its main resource; None without a bound.
        gains: gain of each joint class when it is 10 % better.
        warnings: warnings on the results.
        message: reason of a missing result, one line.
        details: further lines of the reason: memory tiers, and settings that help.
        throughput_p10_per_s: a tenth of such jobs is slower.
        throughput_p90_per_s: a tenth of such jobs is faster.
        iteration_time_p10_s: a tenth of such iterations is shorter, seconds.
        iteration_time_p90_s: a tenth of such iterations is longer, seconds.
        speedup: throughput, divided by its value at the first point of the line that ran.
        latency_p50_s: median latency of requests, seconds; None if the job answers no requests.
        latency_p99_s: 99th percentile of the latency, seconds.
        effects: effect of each uncertain constant on the logarithm of the time, a standard deviation, by key; empty:
            not known.
        line: name of its line.
        label: its value on the axis in words; empty: the number of ranks.
        place: its place on the axis; None: the number of ranks.
    """

    world_size: int
    nodes: int
    global_batch_size: int | None
    status: Literal["ok", "infeasible", "refused", "error"]
    iteration_time_s: float | None = None
    throughput_per_s: float | None = None
    efficiency: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    bound: str | None = None
    gains: Mapping[str, float] = field(default_factory=dict)
    million_usd: float | None = None
    warnings: Sequence[str] = ()
    message: str = ""
    details: Sequence[str] = ()
    throughput_p10_per_s: float | None = None
    throughput_p90_per_s: float | None = None
    iteration_time_p10_s: float | None = None
    iteration_time_p90_s: float | None = None
    speedup: float | None = None
    latency_p50_s: float | None = None
    latency_p99_s: float | None = None
    effects: Mapping[str, float] = field(default_factory=dict)
    line: str = ""
    label: str = ""
    place: float | None = None

    @property
    def tick(self) -> str:
        """Its value on the axis, in words."""
        return self.label or f"{self.world_size:,}"

    @property
    def position(self) -> float:
        """Its place on the axis."""
        return self.world_size if self.place is None else self.place


@dataclass(frozen=True, slots=True)
class ObjectiveCurve:
    """Values of the quantity that chooses the best point.

    Attributes:
        title: name of the quantity and its better direction.
        unit: unit of its values.
        values: numbers by place on the axis; points without a result are left out.
    """

    title: str
    unit: str
    values: Mapping[float, float]


@dataclass(frozen=True, slots=True)
class ScalingStudy:
    """Results of a sweep.

    Attributes:
        name: name of the scenario.
        model: name of the model.
        cluster: name of the cluster.
        scaling: ``weak`` keeps the local batch, ``strong`` the global one; None: no batch follows a size.
        points: one per combination of values, in any order.
        facts: further (name, value) pairs.
        version: version of this tool.
        unit: unit of throughput, a plural noun.
        over: short name of the key on the axis; empty: it is the number of ranks.
        numeric: whether the values on the axis are numbers.
        lines: names of the lines, in order; a sweep of one key has one line without a name.
        beside: short names of the keys that make lines.
        rank_name: plural noun of the devices that hold a rank each.
        claims: sentences in front of the sentences of the page; the first replaces the page's headline.
        marks: labels of the throughput curve by place on the axis, such as ``knee``.
        objective: values of another quantity along the axis; None: throughput only.
    """

    name: str
    model: str
    cluster: str
    scaling: Literal["weak", "strong"] | None
    points: Sequence[ScalingPoint]
    facts: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    unit: str = "samples"
    over: str = ""
    numeric: bool = True
    lines: Sequence[str] = ("",)
    beside: Sequence[str] = ()
    rank_name: str = "GPUs"
    claims: Sequence[str] = ()
    marks: Mapping[float, str] = field(default_factory=dict)
    objective: ObjectiveCurve | None = None

    @property
    def axis(self) -> str:
        """Name of the axis."""
        return self.over or self.rank_name

    @property
    def ordered(self) -> list[ScalingPoint]:
        """The points line by line, along the axis."""
        rank = {line: place for place, line in enumerate(self.lines)}
        return sorted(self.points, key=lambda p: (rank[p.line], p.position))

    @property
    def notes(self) -> list[SizeNote]:
        """Warnings of all points of the only line."""
        before, after = (f"{self.over} ", "") if self.over else ("", f" {self.rank_name}")
        return size_notes({p.tick: p.warnings for p in self.ordered}, before, after)

    @property
    def results(self) -> list[ScalingPoint]:
        """The points that ran, line by line, along the axis."""
        return [p for p in self.ordered if p.status == "ok"]

    @property
    def by_line(self) -> dict[str, ScalingStudy]:
        """A study of each line alone, by its name."""
        return {
            line: replace(self, points=[p for p in self.points if p.line == line], lines=(line,)) for line in self.lines
        }

    def at(self, tick: str) -> str:
        """A value on the axis in a sentence: ``64 GPUs`` or ``servers 4``."""
        name = singular(self.rank_name) if tick == "1" else self.rank_name
        return f"{self.over} {tick}" if self.over else f"{tick} {name}"

    def span(self, ticks: Sequence[str]) -> str:
        """Values on the axis in a sentence: ``from 16 to 64 GPUs``, or ``at framework pytorch, neo``."""
        if self.numeric and len(ticks) > 1:
            return f"from {self.at(f'{ticks[0]} to {ticks[-1]}')}"
        return f"at {self.at(', '.join(ticks))}"


LEAST_DIFFERENCE = 0.01
"""Points whose throughputs differ by less are equal: the search of a plan moves a time by about as much."""


def rivals(points: Sequence[ScalingPoint]) -> list[ScalingPoint]:
    """The other points that are as fast as the fastest within the interval, the fastest of them first."""
    best = fastest(points)
    others = [p for p in points if p is not best and (p.throughput_per_s or 0.0) >= _least_per_s(best, p)]
    return sorted(others, key=lambda p: -(p.throughput_per_s or 0.0))


def _least_per_s(best: ScalingPoint, other: ScalingPoint) -> float:
    """Throughput from which another point counts as equal to the best one.

    Constants that slow both by the same factor leave their ratio as it is, so only differences of effects widen it. The
    best point's own interval counts where the effects are not known.
    """
    rate, low = best.throughput_per_s or 0.0, best.throughput_p10_per_s
    if low is None or not (best.effects and other.effects) or not 0.0 < low < rate:
        return low or rate
    keys = {*best.effects, *other.effects}
    apart = math.hypot(*(best.effects.get(key, 0.0) - other.effects.get(key, 0.0) for key in keys))
    quantile = math.log(rate / low) / max(math.hypot(*best.effects.values()), TINY)
    return rate * min(math.exp(-quantile * apart), 1.0 - LEAST_DIFFERENCE)


TINY = 1e-12
"""Replacement of a standard deviation of 0 in a ratio."""


def fastest_line(points: Sequence[ScalingPoint]) -> str:
    """Name of the line of the fastest point, with those that are equal within its interval."""
    best, equal = fastest(points), rivals(points)
    if not equal:
        return best.line
    more = equal[0].line if len(equal) == 1 else f"{len(equal)} others"
    return f"{best.line} and {more}, equal within the interval"


def fastest(points: Sequence[ScalingPoint]) -> ScalingPoint:
    """The first of the points with the highest throughput."""
    return max(points, key=lambda p: p.throughput_per_s or 0.0)
