"""Errors by configuration: submissions of one job on one machine are one piece of evidence, however many there are.

The error of a configuration is the mean of its cases' errors: of their sizes for mean, median and worst, of the signed
ones for the bias, so that errors of opposite sign do not cancel. A configuration is a metric of a model on a number of
GPUs of a cluster with a framework profile; a collective one operation of a source on a shape of ranks, at all sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from validation.suites.errors import statistics

Table = dict[str, Any]


def configuration_of(inputs: Mapping[str, Any]) -> str:
    """Name of the configuration that a job's inputs belong to."""
    return f"{inputs['model']} on {inputs['world_size']} of {inputs['cluster']}, {inputs['framework']}"


def by_configuration(cases: Iterable[Mapping[str, Any]]) -> list[Table]:
    """Configurations of cases with an error from a source that was read, in the order of the suite.

    Returns:
        ``configuration``, ``role``, ``metric``, ``cases`` (how many), ``mape_pct`` and ``bias_pct`` of each.
    """
    found: dict[tuple[str, str, str], list[float]] = {}
    for case in cases:
        if case["error_pct"] is not None and case["grade"] != "memory":
            key = (_name(case), case["role"], case["metric"])
            found.setdefault(key, []).append(case["error_pct"])
    return [
        {
            "configuration": name,
            "role": role,
            "metric": metric,
            "cases": len(errors),
            "mape_pct": fmean(map(abs, errors)),
            "bias_pct": fmean(errors),
        }
        for (name, role, metric), errors in found.items()
    ]


def statistics_of(configurations: Sequence[Mapping[str, Any]]) -> Table:
    """Statistics over configurations, with their number."""
    worst = max(configurations, key=lambda row: float(row["mape_pct"]), default=None)
    found = statistics([row["mape_pct"] for row in configurations])
    if worst is not None:
        signed = worst["mape_pct"] if worst["bias_pct"] >= 0 else -worst["mape_pct"]
        found |= {"bias_pct": fmean(row["bias_pct"] for row in configurations), "worst_pct": signed}
    return {"configurations": len(configurations), **found}


def _name(case: Mapping[str, Any]) -> str:
    if "model" in case["inputs"]:
        return configuration_of(case["inputs"])
    return str(case.get("interval", {}).get("configuration", case["id"]))
