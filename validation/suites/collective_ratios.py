"""Cases of a suite that are ratios of two times of a collective."""

from __future__ import annotations

from typing import Any

from hardware_specs import Cluster, load_cluster
from hardware_specs.library import Backend
from inputs.errors import InputError
from scenarios.located import of_file
from validation.suites.claim_rows import claim_row
from validation.suites.collectives import MeasuredCollective, Predictor
from validation.suites.suite import CollectiveRatio, Suite


def ratio_case(suite: Suite, asked: CollectiveRatio) -> dict[str, Any]:
    """A case: the time on one machine, or by one library, over that on the other, both idle and without launches.

    Raises:
        InputError: no such cluster, it names no library of the backend, or the ranks do not fit on it.
    """
    below, above = ((asked.cluster, asked.backend), (asked.over_cluster or asked.cluster, asked.over_backend))
    ratio = _seconds(asked, *above) / _seconds(asked, *below)
    given = asked.model_dump(include={"cluster", "backend", "over_cluster", "over_backend"}, exclude_none=True)
    return claim_row(suite, asked, "time ratio", {**given, **_row(asked).inputs}, ratio)


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
