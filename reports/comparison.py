"""Two summaries beside each other: of imports, of runs, or one of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reports.numbers import percent, seconds
from reports.text_table import TextTable

PARTS = ("compute", "exposed_comm", "exposed_copy", "idle")


@dataclass(frozen=True, slots=True)
class Difference:
    """One quantity of two summaries, in seconds; None where a summary does not have it."""

    name: str
    first_s: float | None
    second_s: float | None

    @property
    def change_s(self) -> float:
        """Second less first; absent parts count as zero."""
        return (self.second_s or 0.0) - (self.first_s or 0.0)


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[Difference, ...]:
    """The iteration, its parts, then collectives and kernels, those that changed most first.

    Args:
        first: a ``summary.json`` of ``run`` or ``import``.
        second: another.
    """
    return (*_parts(first, second), *_sorted(_operators(first, second)))


def _parts(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    yield Difference("iteration", first.get("iteration_time_s"), second.get("iteration_time_s"))
    for part in PARTS:
        yield Difference(part, _part(first, part), _part(second, part))


def _part(summary: Mapping[str, Any], part: str) -> float | None:
    """Mean over ranks (and steps) of a part, per iteration."""
    steps = summary.get("steps")
    if steps:
        return float(sum(step[f"{part}_s"] for step in steps)) / len(steps)
    found = summary.get("breakdown", {}).get(f"{part}_s")
    return None if found is None else float(found["mean"])


def _operators(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    one, two = _per_iteration(first), _per_iteration(second)
    return [Difference(name, one.get(name), two.get(name)) for name in dict.fromkeys((*one, *two))]


def _per_iteration(summary: Mapping[str, Any]) -> dict[str, float]:
    """Seconds per iteration and rank of device work by name; of a run, of its collectives."""
    if "operators" in summary:
        count = max(len(summary.get("steps", ())), 1)
        return {row["name"]: row["total_s"] / count for row in summary["operators"]}
    return {row["task"]: row["duration_s"]["mean"] for row in summary.get("collectives", ())}


def _sorted(found: list[Difference]) -> list[Difference]:
    return sorted(found, key=lambda d: (-abs(d.change_s), d.name))


def comparison_table(rows: tuple[Difference, ...], names: tuple[str, str], shown: int) -> TextTable:
    """A row per quantity, at most ``shown``."""
    made = TextTable().words("per iteration and rank").numbers(*names, "change", "")
    for row in rows[:shown]:
        relative = percent(row.change_s / row.first_s) if row.first_s else ""
        change = f"{'-' if row.change_s < 0 else '+'}{seconds(abs(row.change_s))}"
        made.add_row(row.name[:80], _said(row.first_s), _said(row.second_s), change, relative)
    return made


def _said(value_s: float | None) -> str:
    return "-" if value_s is None else seconds(value_s)
