"""Words on sequences, on the time to a target and on iterations without training, for pages and terminals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reports.interval_words import span_in_words
from reports.numbers import counted, long_time, percent

FORWARD_ONLY = "an iteration is a forward pass: no gradients, no updates"
"""Remark on jobs whose iterations evaluate."""

SAME = 1.005
"""Largest over mean that reads 1.00 when it is smaller."""

DEALT = {"random": "random batches", "sorted": "batches sorted by length", "balanced": "batches balanced by length"}
"""Ways in which samples come to ranks, by ``batching``."""


def positions_in_words(positions: float) -> str:
    """Positions of a sample: ``2,738``."""
    return f"{positions:,.0f}"


def padding_of(sequences: Mapping[str, Any]) -> float:
    """Operations on padding, as a share of the layers' operations without it."""
    return float(sequences["padded_gflop_per_sample"]["layers"] / sequences["gflop_per_sample"]["layers"]) - 1.0


def ranks_differ(sequences: Mapping[str, Any]) -> bool:
    """Whether the ranks have different work in some batching."""
    return bool(max(sequences["largest_over_mean_by_batching"].values()) >= SAME)


def dealt_in_words(sequences: Mapping[str, Any]) -> str:
    """Largest over mean work: ``random batches, largest rank 1.02 of the mean, balanced 1.00``."""
    largest = f"{DEALT[sequences['batching']]}, largest rank {_largest(sequences):.2f} of the mean"
    if sequences["batching"] == "balanced" or sequences["layout"] == "padded":
        return largest
    return f"{largest}, balanced {sequences['largest_over_mean_by_batching']['balanced']:.2f}"


def _largest(sequences: Mapping[str, Any]) -> float:
    return float(sequences["tflop_on_ranks"]["largest_over_mean"])


def target_span(target: Mapping[str, Any]) -> str:
    """``8 in 10 between 3.88 and 5.94 h``."""
    return span_in_words(*(long_time(target[key]).split(" ") for key in ("time_p10_s", "time_p90_s")))


def target_work(target: Mapping[str, Any]) -> str:
    """``1,234 iterations, 10 evaluations of 2.10 min (3.1 % of the time)``."""
    iterations = counted(target["iterations"], "iterations")
    if not target["evaluations"]:
        return f"{iterations}, no evaluations"
    each, evaluations = long_time(target["evaluation_s"]), counted(target["evaluations"], "evaluations")
    share = target["evaluations"] * target["evaluation_s"] / target["time_s"]
    return f"{iterations}, {evaluations} of {each} ({percent(share)} of the time)"
