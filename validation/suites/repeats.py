"""Repeated measurements: how far apart are values that others measured of one configuration.

No prediction can be closer to all of them than they are to each other: their spread is the floor of the errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from validation.suites.suite import Band, Case

Table = dict[str, Any]


def repeats(cases: Sequence[Case]) -> list[Table]:
    """Cases that ask for the same metric of the same scenario with the same changes, two or more each.

    Returns:
        ``cases`` (their ids), ``median`` of the measurements, ``spread_pct`` (half the range over the median) and
        ``mean_deviation_pct`` (the mean absolute error of a prediction of the median), in the order of the suite.
    """
    groups: dict[str, list[tuple[str, float]]] = {}
    for case in cases:
        if not isinstance(case.measured, Band) and case.grade != "memory":
            groups.setdefault(_inputs(case), []).append((case.id, case.measured))
    return [_spread(group) for group in groups.values() if len(group) > 1]


def _inputs(case: Case) -> str:
    return repr((case.scenario, sorted(case.set.items(), key=str), case.metric))


def _spread(group: Sequence[tuple[str, float]]) -> Table:
    values = [value for _, value in group]
    middle = median(values)
    return {
        "cases": [name for name, _ in group],
        "median": middle,
        "spread_pct": 50.0 * (max(values) - min(values)) / middle,
        "mean_deviation_pct": 100.0 * fmean(abs(middle / value - 1.0) for value in values),
    }
