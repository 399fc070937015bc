"""``python -m benchmarks intervals [--write]``: quantiles of the intervals from all shipped suites.

Prints by suite, over the cases that nothing was fitted on: the share inside p10 to p90, the same with the quantiles of
all other suites (what a new machine or framework may expect), and the median of p90 over p10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from benchmarks.rows import Row
from dlrmsim.workers import workers_map
from scenarios.uncertainty.conformal import Quantiles
from scenarios.uncertainty.shipped import FILE, quantiles_text, shipped_quantiles
from validation.suites.coverage import Table, fitted_quantiles, inside, predicted_cases, widths
from validation.suites.score import score
from validation.suites.suite import SUITES, load_suite


def rows(*, write: bool) -> Iterator[Row]:
    """Coverage and width by suite; the last row counts quantiles that differ from the shipped ones.

    Args:
        write: write the shipped quantiles anew.
    """
    cases = predicted_cases(_scored(name) for name in SUITES.names())
    together = [case for of_suite in cases.values() for case in of_suite]
    found = fitted_quantiles(together)
    for suite, of_suite in cases.items():
        if of_suite:
            others = [case for name, other in cases.items() if name != suite for case in other]
            yield from _suite(suite, of_suite, found, fitted_quantiles(others))
    for group in found:
        of_group = [case for case in together if case["group"] == group]
        if of_group:
            yield from _coverage(group, of_group, found)
    yield from _coverage("all", together, found)
    text = quantiles_text(found)
    different = text != quantiles_text(shipped_quantiles())
    if write:
        FILE.write_text(text, encoding="utf-8")
        yield Row("quantiles written", float(different), "files")
    else:
        yield Row("quantiles that differ", float(different), "files", "<= 0")


def _suite(
    name: str, cases: Sequence[Table], found: Mapping[str, Quantiles], without: Mapping[str, Quantiles]
) -> Iterator[Row]:
    yield from _coverage(name, cases, found)
    left_out = inside(cases, without)
    if left_out:
        yield Row(f"{name}, from all other suites: inside", 100.0 * fmean(left_out), "%")


def _coverage(name: str, cases: Sequence[Table], found: Mapping[str, Quantiles]) -> Iterator[Row]:
    yield Row(f"{name}: inside", 100.0 * fmean(inside(cases, found)), f"% of {len(cases)}")
    yield Row(f"{name}: median p90 / p10", median(widths(cases, found)), "")


def _scored(name: str) -> dict[str, Any]:
    """Score of a suite's cases alone."""
    file, suite = load_suite(name)
    cases = suite.model_copy(update={"alternatives": (), "effects": (), "peers": ()})
    return score(file, cases, workers_map(None, 1, len(cases.cases)))
