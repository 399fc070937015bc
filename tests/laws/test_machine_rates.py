"""A faster part of any shipped machine never makes a job slower, and the part that bounds makes it faster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from hardware_specs import Cluster, load_cluster
from hardware_specs.catalogs import CATALOGS
from scenarios.resolve import changed
from simulator.network.calibration import with_shares
from simulator.network.model import CollectiveModel
from simulator.network.topology import Topology
from tests.law_runs import iteration_s, planned
from tests.network_machines import idle_call

CLUSTERS = sorted(CATALOGS["cluster"].names())
COMPUTING = [name for name in CLUSTERS if load_cluster(name).node.gpu is not None]
COPIES = "collectives.messages.copy_bytes_per_s"
"""Rate at which a library of messages copies on a rank."""
WRONG_WAY = 5e-3
"""Largest relative change in the wrong direction, for rounding and for transfers that meet others."""


def rates(part: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Key and value of every link, memory and FLOP rate of a machine, but not of the library."""
    if not isinstance(part, Mapping) or path[:1] in (("collectives",), ("fitted",)):
        return
    if "value" in part and "source" in part:
        if "peak_flops" in path or path[-1].endswith("bytes_per_s"):
            yield ".".join(path), part["value"]
        return
    for key, inner in part.items():
        yield from rates(inner, (*path, key))


def times(rate: Any, factor: float) -> Any:
    """A rate, or one for each dimension of a torus, multiplied."""
    if isinstance(rate, list):
        return [times(one, factor) for one in rate]
    number, unit = rate.split()
    return f"{float(number) * factor!r} {unit}"


def settings(cluster: Mapping[str, Any], factor: float) -> dict[str, str]:
    """The setting that multiplies each rate by a factor, by the rate's key."""
    return {key: f"cluster.{key}.value={json.dumps(times(value, factor))}" for key, value in rates(cluster)}


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("name", COMPUTING)
def test_no_rate_of_a_machine_goes_the_wrong_way_and_one_counts(name, nodes):
    job = planned("synthetic_tiny", f"cluster={name}", f"nodes={nodes}")
    before_s, cluster = iteration_s(job), job.to_dict()["cluster"]
    slowed = {key: iteration_s(changed(job, [text])) / before_s for key, text in settings(cluster, 0.5).items()}
    faster = settings(cluster, 2.0) if nodes == 2 else {}  # two nodes have every link that one has
    sped = {key: iteration_s(changed(job, [text])) / before_s for key, text in faster.items()}

    assert {k: r for k, r in slowed.items() if r < 1 - WRONG_WAY} == {}, "slower parts made it faster"
    assert {k: r for k, r in sped.items() if r > 1 + WRONG_WAY} == {}, "faster parts made it slower"
    assert max(slowed.values()) > 1.02, "no rate of the machine counts"


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("op", ["all_reduce", "all_to_all"])
@pytest.mark.parametrize("name", CLUSTERS)
def test_the_link_that_bounds_a_collective_moves_it(name, op, nodes):
    """1 GiB: at half the rate of that link it takes up to twice as long, and no link goes the wrong way.

    Where MPI moves messages between the GPUs of a server, its copies may bound instead.
    """
    base = with_shares(load_cluster(name))
    if base.node.ranks * nodes == 1:
        return  # a node of one rank has no collective inside
    before_s = collective_s(base, op, nodes)
    after = {
        key: collective_s(edited(base, key, 0.5), op, nodes) / before_s
        for key in [*dict(rates(base.to_dict())), *[COPIES] * (base.collectives.messages is not None)]
        if not key.startswith("node.gpu")
    }

    assert min(after.values()) > 1 - WRONG_WAY, after
    assert 1.3 < max(after.values()) < 2.02, after


def edited(cluster: Cluster, key: str, factor: float) -> Cluster:
    """The cluster with one rate multiplied."""
    data = cluster.to_dict()
    *holders, last = key.split(".")
    holder = data
    for part in holders:
        holder = holder[part]
    holder[last] = {**holder[last], "value": times(holder[last]["value"], factor)}
    return Cluster.model_validate(data)


def collective_s(cluster: Cluster, op: Any, nodes: int) -> float:
    """Seconds of a collective of 1 GiB over all ranks of some nodes."""
    model = CollectiveModel.of(cluster, Topology.build(cluster, nodes * cluster.node.ranks))
    return float(np.max(model.time(idle_call(model, op, 2.0**30)).seconds))
