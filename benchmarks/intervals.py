"""``python -m benchmarks intervals [--write]``: quantiles of the intervals from the suites of DLRMs and collectives.

Prints by suite, over the cases that nothing was fitted on: the share inside p10 to p90, the same with the quantiles of
all other suites (what a new machine or framework may expect), and the median of p90 over p10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from benchmarks.rows import Row
from dlrmsim.workers import workers_map
from scenarios.uncertainty.conformal import Quantiles
from scenarios.uncertainty.shipped import FILE, quantiles_text, shipped_quantiles
from validation.suites.coverage import (
    Table,
    fitted_quantiles,
    inside,
    predicted_cases,
    suites_of_quantiles,
    widths,
)
from validation.suites.score import score
from validation.suites.suite import load_suite

ALL = "all"
"""Name of the cases of all suites together."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Cases against their intervals.

    Attributes:
        cases: number of cases.
        inside_pct: share of them that is inside.
        others_pct: the same with the quantiles of all other suites; None where these have no such group.
        width: median of p90 over p10.
    """

    cases: int
    inside_pct: float
    others_pct: float | None
    width: float


def rows(*, write: bool) -> Iterator[Row]:
    """Coverage and width by suite and group; the last row counts quantiles that differ from the shipped ones.

    Args:
        write: replace the shipped quantiles.
    """
    cases = shipped_cases()
    for name, of in coverage_of(cases).items():
        yield Row(f"{name}: inside", of.inside_pct, f"% of {of.cases}")
        if of.others_pct is not None:
            yield Row(f"{name}: from other suites", of.others_pct, "%")
        yield Row(f"{name}: p90 / p10", of.width, "median")
    text = quantiles_text(fitted_quantiles([case for of_suite in cases.values() for case in of_suite]))
    different = text != quantiles_text(shipped_quantiles())
    if write:
        FILE.write_text(text, encoding="utf-8")
        yield Row("quantiles written", float(different), "files")
    else:
        yield Row("quantiles that differ", float(different), "files", "<= 0")


def shipped_cases() -> dict[str, list[Table]]:
    """Predicted cases of the shipped suites that quantiles come from, by suite."""
    return predicted_cases(_scored(name) for name in suites_of_quantiles())


def coverage_of(cases: Mapping[str, Sequence[Table]]) -> dict[str, Coverage]:
    """Coverage of each suite with cases, of each group, and of all together."""
    together = [case for of_suite in cases.values() for case in of_suite]
    found, table = fitted_quantiles(together), {}
    for name, of_suite in cases.items():
        others = [case for other, of_other in cases.items() if other != name for case in of_other]
        if of_suite:
            table[name] = _coverage(of_suite, found, inside(of_suite, fitted_quantiles(others)))
    for group in found:
        of_group = [case for case in together if case["group"] == group]
        if of_group:
            table[group] = _coverage(of_group, found, [])
    return table | {ALL: _coverage(together, found, [])}


def _coverage(cases: Sequence[Table], found: Mapping[str, Quantiles], from_others: Sequence[bool]) -> Coverage:
    others = 100.0 * fmean(from_others) if from_others else None
    return Coverage(len(cases), 100.0 * fmean(inside(cases, found)), others, median(widths(cases, found)))


def _scored(name: str) -> dict[str, Any]:
    """Score of a suite's cases alone."""
    file, suite = load_suite(name)
    cases = suite.model_copy(update={"alternatives": (), "effects": (), "peers": ()})
    return score(file, cases, workers_map(None, 1, len(cases.cases)))
