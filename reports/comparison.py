"""Two summaries beside each other: of imports, of runs, or one of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from reports.numbers import percent, seconds
from reports.text_table import TextTable

PARTS = ("compute", "exposed_comm", "exposed_copy", "idle")
LATENCIES = {"p50_s": "latency, p50", "p99_s": "latency, p99"}
"""Names of the percentiles of request latency, by key."""


class StepParts(msgspec.Struct):
    """Parts of a step, seconds."""

    compute_s: float
    exposed_comm_s: float
    exposed_copy_s: float
    idle_s: float


class Mean(msgspec.Struct):
    """A mean over ranks, seconds."""

    mean: float


class MeanParts(msgspec.Struct):
    """Parts of an iteration."""

    compute_s: Mean | None = None
    exposed_comm_s: Mean | None = None
    exposed_copy_s: Mean | None = None
    idle_s: Mean | None = None


class OperatorTime(msgspec.Struct):
    """Device work of one name."""

    name: str
    total_s: float


class CollectiveTime(msgspec.Struct):
    """A collective task."""

    task: str
    duration_s: Mean


class AnswerTimes(msgspec.Struct):
    """Percentiles of the latency of requests, seconds."""

    p50_s: float
    p99_s: float


class AnsweredRequests(msgspec.Struct):
    """Answered requests."""

    latency: AnswerTimes


class Summary(msgspec.Struct):
    """The part of a ``summary.json`` that is compared."""

    iteration_time_s: float
    steps: list[StepParts] = []
    breakdown: MeanParts = msgspec.field(default_factory=MeanParts)
    operators: list[OperatorTime] = []
    collectives: list[CollectiveTime] = []
    serving: AnsweredRequests | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """One quantity of two summaries, in seconds; None if a summary lacks it."""

    name: str
    first_s: float | None
    second_s: float | None

    @property
    def change_s(self) -> float | None:
        """Second less first; None if one of them is unknown."""
        return None if self.first_s is None or self.second_s is None else self.second_s - self.first_s


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Differences: the iteration, its parts, latencies of requests, then collectives and kernels by descending change.

    Unknown changes come last.

    Args:
        first: a ``summary.json`` of ``run`` or ``import``; ``operators_are_all`` is set if its list of operators is
            complete.
        second: another.
    """
    return (*_parts(first, second), *_sorted(_operators(first, second)))


def _parts(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    yield Difference("iteration", first.get("iteration_time_s"), second.get("iteration_time_s"))
    for part in PARTS:
        yield Difference(part, _part(first, part), _part(second, part))
    for key, name in LATENCIES.items():
        one, two = ((summary.get("serving") or {}).get("latency", {}).get(key) for summary in (first, second))
        if one is not None or two is not None:
            yield Difference(name, one, two)


def _part(summary: Mapping[str, Any], part: str) -> float | None:
    """Mean over ranks (and steps) of a part, per iteration."""
    steps = summary.get("steps")
    if steps:
        return float(sum(step[f"{part}_s"] for step in steps)) / len(steps)
    found = summary.get("breakdown", {}).get(f"{part}_s")
    return None if found is None else float(found["mean"])


def _operators(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    """Operators of both summaries; times are 0 for names missing from a complete list, unknown for a truncated one."""
    one, two = _per_iteration(first), _per_iteration(second)
    alike = ("operators" in first) == ("operators" in second)
    absent = [0.0 if alike and _is_whole(summary) else None for summary in (first, second)]
    names = dict.fromkeys((*one, *two))
    return [Difference(name, one.get(name, absent[0]), two.get(name, absent[1])) for name in names]


def _is_whole(summary: Mapping[str, Any]) -> bool:
    """Whether a name that the summary does not list takes no time; a run lists all its collectives."""
    return "operators" not in summary or bool(summary.get("operators_are_all"))


def _per_iteration(summary: Mapping[str, Any]) -> dict[str, float]:
    """Seconds per iteration and rank of device work by name; of a run, of its collectives."""
    if "operators" in summary:
        count = max(len(summary.get("steps", ())), 1)
        return {row["name"]: row["total_s"] / count for row in summary["operators"]}
    return {row["task"]: row["duration_s"]["mean"] for row in summary.get("collectives", ())}


def _sorted(found: list[Difference]) -> list[Difference]:
    return sorted(found, key=lambda d: (d.change_s is None, -abs(d.change_s or 0.0), d.name))


def comparison_table(rows: tuple[Difference, ...], names: tuple[str, str], shown: int) -> TextTable:
    """A row per quantity, at most ``shown``."""
    made = TextTable().words("per iteration and rank").numbers(*names, "change", "")
    if len(rows) > shown:
        made.caption = f"{len(rows) - shown:,} more: --rows {len(rows)}"
    for row in rows[:shown]:
        known = row.change_s is not None
        relative = percent((row.change_s or 0.0) / row.first_s) if known and row.first_s else ""
        change = f"{'-' if (row.change_s or 0.0) < 0 else '+'}{seconds(abs(row.change_s or 0.0))}" if known else "?"
        made.add_row(row.name[:80], _said(row.first_s), _said(row.second_s), change, relative)
    return made


def _said(value_s: float | None) -> str:
    return "-" if value_s is None else seconds(value_s)
