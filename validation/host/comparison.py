"""Measurements beside their predictions: cases with errors, and statistics of the errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scenarios.progress import Progress
from scenarios.resolve import load_scenario
from validation.host.measurement import RESOLVED, THREAD, HostMeasurement, Times
from validation.host.prediction import predict
from validation.host.usual_times import slowness
from validation.suites.errors import error_pct, statistics

Table = dict[str, Any]
MARKED_SHARE = 0.05
"""Smallest fraction of the iteration with which a class enters the statistics of its class."""


def predict_measured(
    measured: HostMeasurement, cluster: str | None, progress: Progress | None = None, *, framework: str | None = None
) -> Times:
    """Prediction of a measured scenario.

    Args:
        cluster: name or path of the machine; None: the scenario's.
        framework: name or path of the framework profile; None: the scenario's.

    Raises:
        InputError: the scenario, the cluster or the profile is wrong.
    """
    changes = {"cluster": cluster, "workload.framework": framework}
    settings = [f"{key}={_absolute(name)}" for key, name in changes.items() if name is not None]
    return predict(load_scenario(str(measured.folder / RESOLVED), settings), progress)


def _absolute(part: str) -> str:
    """An absolute path if a file has this name, since the scenario is in another folder; else the name."""
    return str(Path(part).resolve()) if Path(part).is_file() else part


def cases_of(measured: HostMeasurement, predicted: Times) -> list[Table]:
    """A case for the iteration, the own thread, each class and each collective: times, error, noise, share.

    Measured times are divided by the slowness of the machine against its calibration.
    """
    times = at_calibration(measured.times, predicted)
    pairs = [("iteration", times.iteration_s, predicted.iteration_s)]
    if times.thread_s is not None and predicted.thread_s is not None:
        pairs.append((THREAD, times.thread_s, predicted.thread_s))
    pairs += [(name, times.classes_s[name], predicted.classes_s[name]) for name in times.classes_s]
    pairs += [
        (op, seconds, predicted.collectives_s[op])
        for op, seconds in times.collectives_s.items()
        if op in predicted.collectives_s
    ]
    return [
        _case(name, seconds, expected, seconds / times.iteration_s, measured.noise_pct)
        for name, seconds, expected in pairs
    ]


def at_calibration(times: Times, predicted: Times) -> Times:
    """Measured times divided by the machine's slowness since the calibration of the spec that predicts."""
    slower = slowness(times.yardstick_s, predicted.yardstick_s)
    return replace(
        times,
        iteration_s=times.iteration_s / slower,
        classes_s={name: seconds / slower for name, seconds in times.classes_s.items()},
        thread_s=None if times.thread_s is None else times.thread_s / slower,
        collectives_s={op: seconds / slower for op, seconds in times.collectives_s.items()},
        yardstick_s=predicted.yardstick_s,
    )


def _case(name: str, seconds: float, expected: float, share: float, noise_pct: Mapping[str, float]) -> Table:
    return {
        "metric": name,
        "unit": "s",
        "measured": seconds,
        "predicted": expected,
        "error_pct": error_pct(expected, seconds) if seconds > 0.0 else None,
        "noise_pct": noise_pct.get(name, 0.0),
        "share": share,
    }


def statistics_of(runs: Sequence[Sequence[Table]]) -> dict[str, Table]:
    """Statistics of errors over measurements by metric; of a class where it is `MARKED_SHARE` of the iteration."""
    found: dict[str, Table] = {}
    for name in dict.fromkeys(case["metric"] for cases in runs for case in cases):
        counted = [
            case
            for cases in runs
            for case in cases
            if case["metric"] == name and case["error_pct"] is not None and case["share"] >= MARKED_SHARE
        ]
        noise = [case["noise_pct"] for case in counted]
        middle = float(np.median(noise)) if noise else None
        found[name] = {"runs": len(counted), **statistics([case["error_pct"] for case in counted]), "noise_pct": middle}
    return found
