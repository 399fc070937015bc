"""Cases of a suite that are collectives: predicted in bulk, reported like any other case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hardware_specs.loader import load_cluster
from inputs.errors import InputError, nearest_name
from scenarios.located import of_file
from traces.nccl_tests import read_timed_collectives
from validation.suites.collectives import MeasuredCollective, Predictor
from validation.suites.coverage import CollectiveIntervals, collective_interval
from validation.suites.errors import error_pct, statistics
from validation.suites.suite import CollectiveCases, Suite

LARGE_BYTES = 2**20
"""Message size that separates latency-bound from bandwidth-bound collectives in tables of errors, bytes: 1 MiB."""


def measured_points(file: Path, asked: CollectiveCases) -> list[MeasuredCollective]:
    """The rows of a suite's CSV.

    Raises:
        InputError: the CSV is wrong, or names a source that the suite does not.
    """
    if not Path(asked.points).is_file():
        expected = "a log of nccl-tests, or a CSV of collectives"
        raise InputError(
            "no such file", file=file, key="collectives.points", given=str(asked.points), expected=expected
        )
    rows = [
        MeasuredCollective(r.op, r.nodes, r.ranks_per_node, r.bytes, r.time_s, r.source)
        for r in read_timed_collectives(Path(asked.points))
    ]
    for row in rows:
        if row.source not in asked.sources:
            raise InputError(
                "the suite does not say where these rows are from",
                file=file,
                key=f"collectives.sources.{row.source}",
                expected="an entry for each source of rows",
                nearest=nearest_name(row.source, list(asked.sources)),
            )
    return rows


def collective_cases(file: Path, suite: Suite, asked: CollectiveCases) -> list[dict[str, Any]]:
    """A case for each row; the launch overhead that a fit found for its source is part of the prediction.

    Raises:
        InputError: no such cluster, or a row does not fit on it.
    """
    cluster = load_cluster(asked.cluster)
    rows = measured_points(file, asked)
    predictor, intervals = Predictor(cluster), CollectiveIntervals()
    with of_file(asked.cluster):
        predicted_s = predictor.seconds(rows).tolist()
    return [
        {
            "id": f"{row.source}_{row.op}_{row.nodes}x{row.ranks_per_node}_{row.bytes:.0f}",
            "role": suite.role(row.inputs),
            "grade": asked.grade,
            "inputs": {"cluster": cluster.name, **row.inputs},
            "metric": "time_s",
            "unit": "s",
            "measured": row.time_s,
            "predicted": seconds + predictor.launch_s(row.source),
            "error_pct": error_pct(seconds + predictor.launch_s(row.source), row.time_s),
            **collective_interval(intervals, predictor.call(row), predictor.launch_s(row.source), row),
            "source": asked.sources[row.source],
        }
        for row, seconds in zip(rows, predicted_s, strict=True)
    ]


def groups_of(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Statistics of collective cases by role and by size, below 1 MiB and above; none without such cases."""
    found = []
    for role in ("validation", "calibration"):
        for large in (True, False):
            errors = [
                case["error_pct"]
                for case in cases
                if case["role"] == role
                and case["metric"] == "time_s"
                and "bytes" in case["inputs"]
                and (case["inputs"]["bytes"] >= LARGE_BYTES) is large
            ]
            if errors:
                sizes = "1 MiB and more" if large else "below 1 MiB"
                found.append({"role": role, "sizes": sizes, "cases": len(errors), **statistics(errors)})
    return found
