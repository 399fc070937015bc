"""PXN: which groups have rails, and its bytes against the route of every pair."""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from hardware_specs.types import Cluster
from simulator.network import CollectiveModel, Topology
from simulator.network.collectives import ALGORITHMS, Call
from simulator.network.load import port_bytes
from simulator.network.membership import blocks_of
from tests.network_machines import changed, idle_call, pcie_box, sourced, tapered

ZIONEX = load_cluster("zionex")
RAILS = changed(ZIONEX, fabric={"kind": "rail_optimised"})
PXN = ALGORITHMS.get("all_to_all/pxn")
RANKS = 32


def chosen(cluster, group, placement="block"):
    topology = Topology.build(cluster, RANKS, placement, 3)
    model = CollectiveModel.of(cluster, topology)
    return [
        {option.algorithm.name for option in model.options(Call("all_to_all", block, np.full((1, 1), 1e6)))}
        for block in model.blocks(group)
    ]


def test_nccl_takes_pxn_where_it_can_and_grouped_sends_elsewhere():
    world, rail, two_of_each = np.zeros(RANKS, dtype=np.int64), np.arange(RANKS) % 8, np.arange(RANKS) % 8 // 2
    other_gpus = np.where(np.isin(np.arange(RANKS), (0, 1, 10, 11)), 0, -1)
    assert chosen(RAILS, world) == chosen(RAILS, two_of_each) == [{"pxn"}]
    assert chosen(RAILS, world, "random") == [{"pxn"}], "a rail is a GPU of each node, whatever its rank"
    assert chosen(RAILS, rail) == [{"grouped"}], "one GPU of each node: all on one rail"
    assert chosen(RAILS, np.arange(RANKS) // 8) == [{"grouped"}], "inside a node"
    assert chosen(RAILS, other_gpus) == [{"grouped"}], "GPUs 0 and 1 of one node, 2 and 3 of the other"
    assert chosen(ZIONEX, world) == chosen(pcie_box(RAILS), world) == [{"grouped"}], "a fat tree; no NVLink"
    shared = RAILS.to_dict()["node"]["nics"] | {"count": sourced(4)}
    assert chosen(changed(RAILS, {"nics": shared}), world) == [{"grouped"}], "two GPUs for each NIC"


def test_a_library_without_it_does_not_take_it():
    data = RAILS.to_dict()
    data["collectives"]["nccl"]["algorithms"]["all_to_all"] = ["grouped"]
    off = Cluster.model_validate(data)
    assert chosen(off, np.zeros(RANKS, dtype=np.int64)) == [{"grouped"}]


@pytest.mark.parametrize("placement", ["block", "random"])
@pytest.mark.parametrize("uneven", [True, False])
def test_bytes_are_those_of_every_pairs_route(placement, uneven):
    """By NVLink to the GPU of the destination's number, through its NIC; nothing is lost and the spine sees nothing."""
    rng = np.random.default_rng(7)
    cluster = tapered(RAILS, "rail_optimised", leaf_nodes=None)
    topology = Topology.build(cluster, RANKS, placement, 3)
    (block,) = blocks_of(np.zeros(RANKS, dtype=np.int64), topology)
    flows = np.full((RANKS, RANKS), 1e6 / RANKS)
    call = Call("all_to_all", block, np.full((1, 1), 1e6))
    if uneven:
        sent, share = rng.uniform(0, 1e6, (1, RANKS)), rng.dirichlet(np.ones(RANKS), 1)
        flows = sent[0][:, None] * share[0][None, :]
        call = Call("all_to_all", block, sent.mean(axis=1, keepdims=True), sent, share)
    node, gpu = topology.node_of, topology.local_rank_of
    rank_at = {(node[rank], gpu[rank]): rank for rank in range(RANKS)}
    expected = {port: np.zeros(RANKS) for port in ("nvlink_tx", "nvlink_rx", "nic_tx", "nic_rx")}
    for source in range(RANKS):
        for target in range(RANKS):
            between = rank_at[node[source], gpu[target]]
            if between != source:
                expected["nvlink_tx"][source] += flows[source, target]
                expected["nvlink_rx"][between] += flows[source, target]
            if node[source] != node[target]:
                expected["nic_tx"][between] += flows[source, target]
                expected["nic_rx"][target] += flows[source, target]
    (stage,) = PXN.stages(call)
    loads = port_bytes(stage, block, topology)
    assert set(loads) == set(expected)
    for port, load in loads.items():
        numbers = block.grouping(topology.ports[port].link).numbers[0]
        by_link = np.bincount(topology.ports[port].link, weights=expected[port])[numbers]
        np.testing.assert_allclose(np.broadcast_to(load, (1, len(numbers)))[0], by_link, rtol=1e-7, atol=1e-2)


def test_pxn_moves_by_nvlink_what_leaves_on_another_rail():
    """(g - 1) / g S instead of (g - 1) / n S; the NICs carry the same."""
    model = CollectiveModel.of(RAILS, Topology.build(RAILS, RANKS))
    call = idle_call(model, "all_to_all", 1e8)
    topology, block = model.topology, call.block
    with_pxn, without = (
        port_bytes(ALGORITHMS.get(f"all_to_all/{name}").stages(call)[0], block, topology) for name in ("pxn", "grouped")
    )
    assert np.allclose(with_pxn["nvlink_tx"], 7 / 8 * 1e8)
    assert np.allclose(without["nvlink_tx"], 7 / 32 * 1e8)
    assert np.allclose(with_pxn["nic_tx"], 24 / 32 * 1e8)
    assert np.allclose(without["nic_tx"], 24 / 32 * 1e8)
