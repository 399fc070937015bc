"""Overheads of a profile from the operators of traces: medians by operator without outliers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from inputs.quantities import format_quantity
from traces.kineto.overheads import OperatorCall
from workloads.graph.operator_names import is_hook, operator_key
from workloads.graph.overheads import PARTS, SHARED

OUTLIER_IQRS = 1.5
"""Distance from the quartiles, in interquartile ranges, beyond which a time is left out (Tukey's fences)."""


@dataclass(frozen=True, slots=True)
class MedianOverhead:
    """One part of an operator, or T4 of a call.

    Attributes:
        name: operator or call; ``*``: all of them together.
        part: ``t1`` to ``t5``.
        seconds: median of what was kept.
        kept: times that count.
        left_out: outliers.
    """

    name: str
    part: str
    seconds: float
    kept: int
    left_out: int


@dataclass(slots=True)
class _Samples:
    """Times of all calls, seconds: of operators by (name, part), of runtime calls; launches by operator."""

    parts: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    calls: dict[str, list[float]] = field(default_factory=dict)
    launches: dict[str, Counter[int]] = field(default_factory=dict)

    def add(self, call: OperatorCall) -> None:
        """Take a call."""
        key = operator_key(call.name)
        times = {"t1": [] if call.t1 is None else [call.t1], "t2": [call.t2], "t3": [call.t3], "t5": list(call.t5)}
        for part, found in times.items():
            for name in (key, SHARED):
                self.parts.setdefault((name, part), []).extend(found)
        for runtime, seconds in call.calls:
            for name in (runtime, SHARED):
                self.calls.setdefault(name, []).append(seconds)
        self.launches.setdefault(key, Counter())[len(call.calls)] += 1


@dataclass(frozen=True, slots=True)
class FittedOverheads:
    """Overheads of all operators.

    Attributes:
        rows: medians, those of all operators first.
        launches: launches of the operators that always make as many.
        operators: calls of operators.
    """

    rows: Sequence[MedianOverhead]
    launches: Mapping[str, int]
    operators: int

    def text(self, source: str) -> str:
        """The entry ``overheads`` of a profile."""
        calls = [row for row in self.rows if row.part == "t4"]
        names = dict.fromkeys(row.name for row in self.rows if row.part != "t4")
        lines = ["overheads:", "  t4:", *(f"    {_quoted(row.name)}: {_entry(row, source)}" for row in calls)]
        lines.append("  operators:")
        for name in names:
            parts = [f"{row.part}: {_entry(row, source)}" for row in self.rows if row.name == name and row.part != "t4"]
            if name in self.launches:
                parts.append(f'launches: {{value: {self.launches[name]}, source: "{source}", grade: derived}}')
            lines.append(f"    {_quoted(name)}: {{{', '.join(parts)}}}")
        return "\n".join(lines) + "\n"


def fit_overheads(calls: Sequence[OperatorCall]) -> FittedOverheads:
    """Medians of the parts of all operators; at least one call."""
    samples = _Samples()
    for call in calls:
        samples.add(call)
    launches = {
        name: next(iter(counts)) for name, counts in samples.launches.items() if len(counts) == 1 and not is_hook(name)
    }
    rows = [*_of_calls(samples.calls), *_of_operators(samples.parts)]
    return FittedOverheads(rows, launches, len(calls))


def without_outliers(times: Sequence[float]) -> list[float]:
    """Times within `OUTLIER_IQRS` interquartile ranges of the quartiles."""
    low, high = np.percentile(times, [25, 75])
    reach = OUTLIER_IQRS * (high - low)
    return [time for time in times if low - reach <= time <= high + reach]


def _of_calls(calls: Mapping[str, Sequence[float]]) -> Iterator[MedianOverhead]:
    for name in sorted(calls, key=lambda name: (name != SHARED, name)):
        yield _median(name, "t4", calls[name])


def _of_operators(parts: Mapping[tuple[str, str], Sequence[float]]) -> Iterator[MedianOverhead]:
    names = sorted({name for name, _ in parts}, key=lambda name: (name != SHARED, name))
    for name in names:
        for part in PARTS:
            times = parts.get((name, part), ())
            if times or name == SHARED:  # where no operator has several launches there is nothing between two
                yield _median(name, part, times or [0.0])


def _median(name: str, part: str, times: Sequence[float]) -> MedianOverhead:
    kept = without_outliers(times)
    return MedianOverhead(name, part, float(np.median(kept)), len(kept), len(times) - len(kept))


def _entry(row: MedianOverhead, source: str) -> str:
    value = format_quantity(float(f"{row.seconds:.4g}"), "s")
    note = f"median of {row.kept}, {row.left_out} outliers left out"
    return f'{{value: {value}, source: "{source}", grade: derived, note: "{note}"}}'


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
