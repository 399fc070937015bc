"""The table of `benchmarks.accuracy`: what its rows tell, against what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchmarks.rows import Row
from validation.measured import CLASSES, THREAD
from validation.measured_prediction import MARKED_SHARE
from validation.suites.errors import statistics

FLOOR_PCT = 0.1
"""Smallest error that enters the geometric mean."""
METRICS = ("iteration", THREAD, *CLASSES)


def told(done: Sequence[Mapping[str, str]]) -> Iterator[Row]:
    """What rows of a study say together: launches that were made anew, errors by metric, by ranks and undivided.

    Args:
        done: its rows (`benchmarks.accuracy`), times in seconds, errors in per cent.
    """
    launched = [int(row["launched"]) - int(row["launches"]) for row in done if row.get("launched")]
    yield Row("accuracy_launched_anew", sum(launched), "launches")
    yield from _statistics(done)
    yield from _iterations(done)


def _statistics(done: Sequence[Mapping[str, str]]) -> Iterator[Row]:
    """Errors of each metric, of a class where it is `MARKED_SHARE` of the iteration, and what was asked for."""
    for metric in METRICS:
        counted = [
            row
            for row in done
            if row.get(f"{metric}_error_pct") and float(row[f"{metric}_measured_s"]) > 0.0
            and float(row[f"{metric}_measured_s"]) >= MARKED_SHARE * float(row["iteration_measured_s"])
        ]  # fmt: skip
        if not counted:
            continue
        errors = [float(row[f"{metric}_error_pct"]) for row in counted]
        found = statistics(errors)
        name, whole = metric.replace(" ", "_"), metric == "iteration"
        noise = float(np.median([float(row[f"{metric}_noise_pct"]) for row in counted]))
        limit = f"<= {max(8.0, 1.5 * noise):.3g}" if whole else "" if metric == THREAD else "<= 12"
        yield Row(f"{name}_mape", found["mape_pct"], "%", limit)
        yield Row(f"{name}_geomean", _geomean_pct(errors), "%", "<= 5" if whole else "")
        yield Row(f"{name}_bias", found["bias_pct"], "%")
        if whole:
            yield Row(f"{name}_bias_size", abs(found["bias_pct"]), "%", "<= 3")
        yield Row(f"{name}_worst", found["worst_pct"], "%")
        yield Row(f"{name}_noise", noise, "%")


def _iterations(done: Sequence[Mapping[str, str]]) -> Iterator[Row]:
    """Errors of iterations by number of ranks, and without the yardstick."""
    for ranks in sorted({int(row["ranks"]) for row in done}):
        errors = [float(row["iteration_error_pct"]) for row in done if int(row["ranks"]) == ranks]
        yield Row(f"iteration_{ranks}_ranks", len(errors), "configurations")
        yield from _three(f"iteration_{ranks}_ranks", errors)
    if done:
        yield from _three("iteration_without_yardstick", [_raw_error_pct(row) for row in done])


def _raw_error_pct(row: Mapping[str, str]) -> float:
    return 100.0 * (float(row["iteration_predicted_s"]) / float(np.median(_numbers(row["iterations_s"]))) - 1.0)


def _three(name: str, errors: Sequence[float]) -> Iterator[Row]:
    yield Row(f"{name}_mape", float(np.mean(np.abs(errors))), "%")
    yield Row(f"{name}_geomean", _geomean_pct(errors), "%")
    yield Row(f"{name}_bias", float(np.mean(errors)), "%")


def _geomean_pct(errors: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(np.maximum(np.abs(errors), FLOOR_PCT)))))


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split()]
