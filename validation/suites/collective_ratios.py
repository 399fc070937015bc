"""Cases of a suite that are ratios of two times of a collective."""

from __future__ import annotations

from typing import Any

from hardware_specs import Cluster, load_cluster
from hardware_specs.library import Backend
from inputs.errors import InputError
from scenarios.located import of_file
from validation.suites.collectives import MeasuredCollective, Predictor
from validation.suites.errors import error_pct, hit_of
from validation.suites.suite import Band, CollectiveRatio, Suite


def ratio_case(suite: Suite, asked: CollectiveRatio) -> dict[str, Any]:
    """A case: the time on one machine, or by one library, over that on the other, both idle and without launches.

    Raises:
        InputError: no such cluster, it names no library of the backend, or the ranks do not fit on it.
    """
    below, above = ((asked.cluster, asked.backend), (asked.over_cluster or asked.cluster, asked.over_backend))
    ratio = _seconds(asked, *above) / _seconds(asked, *below)
    measured = asked.measured
    given = asked.model_dump(include={"cluster", "backend", "over_cluster", "over_backend"}, exclude_none=True)
    inputs = {**given, **_row(asked).inputs, "metric": "time ratio", "grade": asked.grade}
    return {
        "id": asked.id,
        "role": suite.role(inputs),
        "grade": asked.grade,
        **({"title": asked.title} if asked.title else {}),
        "inputs": inputs,
        "metric": "time ratio",
        "unit": asked.unit,
        "measured": measured.model_dump() if isinstance(measured, Band) else measured,
        "predicted": ratio,
        "error_pct": error_pct(ratio, measured),
        **hit_of(ratio, measured),
        "source": asked.source,
        "warnings": [],
    }


def _seconds(asked: CollectiveRatio, name: str, backend: Backend | None) -> float:
    cluster = load_cluster(name)
    with of_file(name):
        return float(Predictor(_with_library(cluster, backend)).seconds([_row(asked)])[0])


def _with_library(cluster: Cluster, backend: Backend | None) -> Cluster:
    found = cluster if backend is None else cluster.by_backend(backend)
    if found is None:
        expected = f"{cluster.collectives.backend}, or a library of {backend} under other_libraries"
        raise InputError(
            "the cluster names no library of this backend", key="backend", given=backend, expected=expected
        )
    return found


def _row(asked: CollectiveRatio) -> MeasuredCollective:
    """The collective, without a measured time."""
    return MeasuredCollective(asked.op, asked.nodes, asked.ranks_per_node, asked.bytes, 0.0)
