"""Errors of the last studies on a host: random configurations trained and predicted (rows in traces/measured).

They were made with the version of 2026-11-27, whose host model had more laws; no command of today repeats them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.rows import Row
from validation.suites.errors import statistics

MEASURED = Path(__file__).parents[1] / "traces" / "measured"
CONFIGURATIONS, PLANS = MEASURED / "accuracy_42.csv", MEASURED / "choices_17.csv"
METRICS = ("iteration", "embedding_forward", "embedding_update", "gemm", "collectives", "rest")
LEAST_SHARE = 0.05
"""Smallest fraction of the iteration with which a class of a configuration counts."""


def rows() -> Iterator[Row]:
    """Mean and geometric mean of absolute errors and bias by metric, then those of 20 sets of plans, per cent."""
    with CONFIGURATIONS.open(encoding="utf-8") as stream:
        found = list(csv.DictReader(stream))
    for metric in METRICS:
        counted = [
            row
            for row in found
            if float(row[f"{metric}_measured_s"]) >= LEAST_SHARE * float(row["iteration_measured_s"])
        ]
        of = statistics([float(row[f"{metric}_error_pct"]) for row in counted])
        yield Row(f"{metric}, mean of {len(counted)}", of["mape_pct"], "%")
        yield Row(f"{metric}, geometric mean", of["geomean_pct"], "%")
        yield Row(f"{metric}, bias", of["bias_pct"], "%")
    with PLANS.open(encoding="utf-8") as stream:
        plans = list(csv.DictReader(stream))
    losses = []
    for number in sorted({row["set"] for row in plans}):
        of_set = [row for row in plans if row["set"] == number]
        predicted, measured = (
            np.array([float(row[f"{name}_s"]) for row in of_set]) for name in ("predicted", "measured")
        )
        losses.append(100.0 * (measured[predicted.argmin()] / measured.min() - 1.0))
    yield Row(f"plan predicted best, loss over {len(losses)} sets", float(np.mean(losses)), "%")
