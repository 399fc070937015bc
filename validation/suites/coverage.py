"""Intervals of predictions against measurements: how many measurements are inside, and how wide the intervals are."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from scenarios.resolve import load_scenario
from scenarios.types import DEFAULT_KIND
from scenarios.uncertainty.collectives import CallIntervals
from scenarios.uncertainty.conformal import Quantiles, Residual, by_group
from scenarios.uncertainty.shipped import COLLECTIVE_GROUPS, JOB_GROUPS
from simulator.network import CollectiveModel
from simulator.network.collectives import Call
from validation.catalogs import SUITES
from validation.suites.collectives import MeasuredCollective
from validation.suites.configurations import configuration_of
from validation.suites.predict import Prediction
from validation.suites.suite import Band, Case, Suite, load_suite

Table = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CollectiveIntervals:
    """Intervals of the calls of a cluster; those of a shape share what they need."""

    _known: dict[tuple[int, int], CallIntervals] = field(default_factory=dict)

    def of(self, shape: tuple[int, int], model: CollectiveModel) -> CallIntervals:
        """The intervals of the calls of a shape, which this model times."""
        if shape not in self._known:
            self._known[shape] = CallIntervals.of(model)
        return self._known[shape]


def ends_of(metric: str) -> tuple[str, str] | None:
    """Keys of a summary that have the ends of a metric's interval; None: it has no interval."""
    if metric == "iteration_time_s":
        return "iteration_time_p10_s", "iteration_time_p90_s"
    unit = re.fullmatch("throughput_([a-z]+)_per_s", metric)
    return None if unit is None else (f"throughput_p10_{unit[1]}_per_s", f"throughput_p90_{unit[1]}_per_s")


def job_interval(case: Case, prediction: Prediction) -> Table:
    """Ends of a case's interval, whether the measurement is inside, and its residual; empty without an interval."""
    keys, summary, measured = ends_of(case.metric), prediction.summary, case.measured
    if keys is None or not summary or isinstance(measured, Band):
        return {}
    predicted, of = summary[case.metric], summary["uncertainty"]
    off = math.log(measured / predicted) * (1.0 if case.metric == "iteration_time_s" else -1.0)
    ends = summary[keys[0]], summary[keys[1]]
    return _entry(ends, measured, off / of["sigma"], of["sigma"], of["group"], configuration_of(prediction.inputs))


def collective_interval(
    intervals: CollectiveIntervals, call: tuple[CollectiveModel, Call], launch_s: float, row: MeasuredCollective
) -> Table:
    """The same of a collective; sizes of one operation on the same ranks are one configuration."""
    model, asked = call
    found = intervals.of(row.shape, model).of_call(asked, launch_s)
    off = math.log(row.time_s / found.time_s)
    configuration = f"{row.source} {row.op} {row.nodes}x{row.ranks_per_node}"
    return _entry((found.p10_s, found.p90_s), row.time_s, off / found.sigma, found.sigma, found.group, configuration)


def _entry(ends: tuple[float, float], measured: float, z: float, sigma: float, group: str, configuration: str) -> Table:
    return {
        "p10": ends[0],
        "p90": ends[1],
        "inside": ends[0] <= measured <= ends[1],
        "interval": {"z": z, "sigma": sigma, "group": group, "configuration": configuration},
    }


def coverage(cases: Iterable[Mapping[str, Any]]) -> list[Table]:
    """Groups of cases: number with an interval, share of measurements inside, median of p90 over p10."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for case in cases:
        if "interval" in case:
            found[case["interval"]["group"]].append(case)
    return [
        {
            "group": group,
            "cases": len(of),
            "inside_pct": 100.0 * sum(case["inside"] for case in of) / len(of),
            "median_width": median(case["p90"] / case["p10"] for case in of),
        }
        for group, of in found.items()
    ]


def suites_of_quantiles() -> list[str]:
    """Names of the shipped suites that quantiles come from: of collectives, and of DLRMs.

    Jobs of other kinds are held against these quantiles.
    """
    return [name for name in SUITES.names() if _kinds(load_suite(name)[1]) <= {DEFAULT_KIND}]


def _kinds(suite: Suite) -> set[str]:
    """Kinds of workload of a suite's jobs."""
    return {load_scenario(name).kind for name in {case.scenario for case in suite.cases}}


def predicted_cases(suites: Iterable[Mapping[str, Any]]) -> dict[str, list[Table]]:
    """Intervals of the cases that nothing was fitted on, by suite."""
    return {
        suite["suite"]: [
            case["interval"] | {"configuration": f"{suite['suite']} {case['interval']['configuration']}"}
            for case in suite["cases"]
            if case["role"] == "validation" and "interval" in case
        ]
        for suite in suites
    }


def fitted_quantiles(cases: Sequence[Table]) -> dict[str, Quantiles]:
    """Quantiles of every group; groups of jobs, and groups of collectives, help each other out."""
    found: dict[str, Quantiles] = {}
    for groups in (JOB_GROUPS, COLLECTIVE_GROUPS):
        residuals = {
            group: [Residual(case["z"], case["configuration"]) for case in cases if case["group"] == group]
            for group in groups
        }
        if any(residuals.values()):
            found |= by_group(residuals)
    return found


def inside(cases: Sequence[Table], found: Mapping[str, Quantiles]) -> list[bool]:
    """Whether each case is within the quantiles of its group, if they exist."""
    return [found[c["group"]].low <= c["z"] <= found[c["group"]].high for c in cases if c["group"] in found]


def widths(cases: Sequence[Table], found: Mapping[str, Quantiles]) -> list[float]:
    """p90 over p10 of each case."""
    return [
        math.exp(case["sigma"] * (found[case["group"]].high - found[case["group"]].low))
        for case in cases
        if case["group"] in found
    ]
