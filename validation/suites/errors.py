"""Errors of predictions, and their statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from validation.suites.suite import Band

Table = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupErrors:
    """Errors of a group of measured rows: the keys of `statistics`.

    Attributes:
        role: ``calibration`` (fitted on) or ``validation``.
        cases: number of rows.
    """

    role: str
    cases: int
    mape_pct: float
    median_pct: float
    geomean_pct: float
    bias_pct: float
    worst_pct: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveErrors(GroupErrors):
    """Errors of collectives of one range of sizes, in words."""

    sizes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelErrors(GroupErrors):
    """Errors of kernels of one kind from one source."""

    kind: str
    source: str


def statistics(errors_pct: Sequence[float]) -> Table:
    """Mean, median and geometric mean of absolute errors, mean and worst error, in per cent; None without errors."""
    if not errors_pct:
        return dict.fromkeys(("mape_pct", "median_pct", "geomean_pct", "bias_pct", "worst_pct"))
    sizes = sorted(abs(error) for error in errors_pct)
    return {
        "mape_pct": sum(sizes) / len(sizes),
        "median_pct": median(sizes),
        "geomean_pct": 0.0 if sizes[0] == 0 else math.exp(sum(math.log(size) for size in sizes) / len(sizes)),
        "bias_pct": sum(errors_pct) / len(errors_pct),
        "worst_pct": max(errors_pct, key=abs),
    }


def hit_of(predicted: float | None, measured: float | Band) -> Table:
    """``hit``: whether a prediction is in a band; nothing for a single number."""
    if not isinstance(measured, Band):
        return {}
    return {"hit": predicted is not None and measured.low <= predicted <= measured.high}


def hits(cases: Sequence[Table]) -> Table:
    """Number of cases that are bands, and of predictions in theirs."""
    found = [bool(case["hit"]) for case in cases if "hit" in case]
    return {"cases": len(found), "hits": sum(found)}


def is_amount(metric: str) -> bool:
    """Whether a metric is an amount of bytes, which follows from the job alone: no time or rate enters it."""
    return metric.endswith("_bytes")


def amount_errors(errors_pct: Sequence[float]) -> Table:
    """Number of amounts with an error, of those that are exact to a millionth, and the worst error, in per cent."""
    exact = sum(abs(error) < 1e-4 for error in errors_pct)
    return {"cases": len(errors_pct), "exact": exact, "worst_pct": statistics(errors_pct)["worst_pct"]}


def error_pct(predicted: float | None, measured: float | Band) -> float | None:
    """100 (predicted / measured - 1); None for a band, or when nothing was predicted."""
    if predicted is None or isinstance(measured, Band):
        return None
    return 100.0 * (predicted / measured - 1.0)
