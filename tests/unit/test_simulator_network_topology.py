"""Ranks on nodes, and numbered resources."""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from inputs.errors import InputError
from simulator.network.topology import Topology


@pytest.fixture(scope="module")
def zionex():
    return load_cluster("zionex")


def oversubscribed(cluster, factor, kind="fat_tree"):
    spine = cluster.fabric.spine_oversubscription.model_copy(update={"value": factor})
    fabric = cluster.fabric.model_copy(update={"spine_oversubscription": spine, "kind": kind})
    return cluster.model_copy(update={"fabric": fabric})


def test_block_placement_fills_node_after_node(zionex):
    topology = Topology.build(zionex, 12)
    assert topology.nodes == 2
    assert topology.node_of.tolist() == [0] * 8 + [1] * 4
    assert topology.local_rank_of.tolist() == [*range(8), *range(4)]


def test_round_robin_deals_ranks_to_nodes_in_turn(zionex):
    topology = Topology.build(zionex, 16, "round_robin")
    assert topology.node_of.tolist() == [0, 1] * 8
    assert topology.local_rank_of.tolist() == [i // 2 for i in range(16)]


def test_random_placement_is_a_permutation_decided_by_the_seed(zionex):
    one, same, other = (Topology.build(zionex, 64, "random", seed) for seed in (1, 1, 2))
    slots = one.node_of * 8 + one.local_rank_of
    assert sorted(slots.tolist()) == list(range(64))
    assert np.array_equal(one.node_of, same.node_of)
    assert not np.array_equal(one.node_of, other.node_of)


def test_gpus_share_nics_where_there_are_fewer():
    """A DGX-1 has 4 NICs for 8 GPUs: neighbours share one."""
    topology = Topology.build(load_cluster("dgx1_v100"), 16)
    assert topology.port_count("nic_tx") == 8
    assert topology.ports["nic_tx"].link.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]


def test_resources_are_numbered_once_each_and_named(zionex):
    topology = Topology.build(zionex, 16)
    names = list(topology.resource_names)
    assert len(names) == len(set(names)) == topology.resource_count == 16 * 6
    assert names[topology.first("nic_rx") + 3] == "nic_rx[3]"
    assert topology.resource_names[-1] == names[-1]
    assert topology.resource_names[0:2] == names[:2]
    with pytest.raises(IndexError):
        topology.resource_names[len(names)]
    assert topology.resource_class[topology.first("nic_tx")] == "nic"
    assert topology.capacities_bytes_per_s[topology.first("nic_tx")] == 25e9
    assert topology.capacities_bytes_per_s[0] == 300e9


def test_the_spine_is_a_resource_only_when_oversubscribed(zionex):
    assert Topology.build(zionex, 32).port_count("spine_up") == 0
    assert Topology.build(oversubscribed(zionex, 4.0), 8).port_count("spine_up") == 0, "one node needs no spine"
    topology = Topology.build(oversubscribed(zionex, 4.0), 32)
    assert topology.port_count("spine_up") == topology.port_count("spine_down") == 4
    assert topology.rates["spine"] == 8 * 25e9 / 4


@pytest.mark.parametrize(("ranks", "placement"), [(0, "block"), (8, "blok")])
def test_impossible_jobs_are_refused(zionex, ranks, placement):
    with pytest.raises(InputError):
        Topology.build(zionex, ranks, placement)
