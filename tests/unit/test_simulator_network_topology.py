"""Ranks on nodes, and numbered resources."""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from inputs.errors import InputError
from simulator.network.collectives.algorithm import Latency, Stage
from simulator.network.load import full_rate_seconds, links_used, port_bytes
from simulator.network.membership import blocks_of
from simulator.network.patterns import AllPairs, Rings
from simulator.network.topology import Topology
from tests.network_machines import changed, pcie_box, sourced, staged_box, tapered, through_host, torus


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
    assert len(names) == len(set(names)) == topology.resource_count == 16 * 6 + 2 * 4, (
        "links of GPUs and NICs, memory of sockets"
    )
    assert names[topology.first("nic_rx") + 3] == "nic_rx[3]"
    assert topology.resource_names[-1] == names[-1]
    assert topology.resource_names[0:2] == names[:2]
    with pytest.raises(IndexError):
        topology.resource_names[len(names)]
    assert topology.resource_class[topology.first("nic_tx")] == "nic"


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


def test_a_job_larger_than_its_torus_is_refused(zionex):
    with pytest.raises(InputError, match=r"at most 64, on the 8 nodes of its torus") as caught:
        Topology.build(torus(zionex, [4, 2]), 65)
    assert caught.value.key == "world_size"


def test_without_gpudirect_what_leaves_the_node_crosses_pcie_and_twice_the_memory_of_its_socket(zionex):
    """8 GPUs on 4 sockets: of 16 MB from each GPU half goes to the other node."""
    loads = {}
    for name, cluster in (("direct", zionex), ("host", through_host(zionex))):
        topology = Topology.build(cluster, 16)
        (block,) = blocks_of(np.zeros(16, dtype=np.int64), topology)
        loads[name] = port_bytes(Stage(Latency(), AllPairs(np.full((1, 1), 16e6))), block, topology)
    assert set(loads["direct"]) == {"nvlink_tx", "nvlink_rx", "nic_tx", "nic_rx"}
    assert set(loads["host"]) == set(loads["direct"]) | {"pcie_d2h", "pcie_h2d", "ddr"}
    for port in ("nvlink_tx", "nvlink_rx", "nic_tx", "nic_rx"):
        np.testing.assert_array_equal(loads["host"][port], loads["direct"][port])
    np.testing.assert_allclose(loads["host"]["pcie_d2h"], 8e6)
    np.testing.assert_allclose(loads["host"]["pcie_h2d"], 8e6)
    np.testing.assert_allclose(loads["host"]["ddr"], [[2 * 2 * (8e6 + 8e6)] * 8])
    topology = Topology.build(through_host(zionex), 16)
    assert topology.rates["ddr"] == zionex.node.ddr_bytes_per_s.value / 4, "a socket's share"
    assert topology.port_count("ddr") == 8


def test_without_gpudirect_the_up_link_of_the_switch_is_on_the_way(zionex):
    """NICs below the switches: with GPUDirect only what goes to another switch of the node uses the up-link."""
    between_nodes = np.where(np.arange(16) % 8 == 0, 0, -1)
    for cluster, crosses in ((pcie_box(zionex, "switch"), False), (through_host(pcie_box(zionex, "switch")), True)):
        topology = Topology.build(cluster, 16)
        (block,) = blocks_of(between_nodes, topology)
        loads = port_bytes(Stage(Latency(), AllPairs(np.full((1, 1), 1e6))), block, topology)
        assert ("switch_up" in loads, "ddr" in loads) == (crosses, crosses)
        assert "nic_tx" in loads


def test_slow_host_memory_bounds_what_goes_through_it(zionex):
    """20 GB/s of memory on each of 4 sockets, a quarter of 2 x (25 + 25) GB/s for each of 2 NICs: 10 times as slow."""
    slow = changed(through_host(zionex), {"ddr_bytes_per_s": sourced("80 GB/s")})
    topology = Topology.build(slow, 16)
    (block,) = blocks_of(np.zeros(16, dtype=np.int64), topology)
    loads = port_bytes(Stage(Latency(), AllPairs(np.full((1, 1), 16e6))), block, topology)
    seconds = full_rate_seconds(loads, topology.rates)
    assert float(seconds["ddr"].max() / seconds["nic"].max()) == pytest.approx(10.0)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_traffic_that_takes_detours_uses_twice_the_global_links(zionex, share):
    """All pairs over 4 groups of a dragonfly: bytes on each group's global links times 1 + share (Valiant: 2)."""
    minimal = tapered(zionex, "dragonfly", leaf_nodes=2)
    loads = []
    for cluster in (minimal, changed(minimal, fabric={"detour_share": sourced(share)})):
        topology = Topology.build(cluster, 64)
        (block,) = blocks_of(np.zeros(64, dtype=np.int64), topology)
        loads.append(port_bytes(Stage(Latency(), AllPairs(np.full((1, 1), 16e6))), block, topology))
    for port in ("spine_up", "spine_down"):
        np.testing.assert_allclose(loads[0][port], 16 * 16e6 * 48 / 64)
        np.testing.assert_allclose(loads[1][port], (1 + share) * loads[0][port])
    np.testing.assert_array_equal(loads[0]["nic_tx"], loads[1]["nic_tx"])


def test_detours_need_a_spine_where_the_bandwidth_is_full(zionex):
    """Every up-link has its own global link, and half of the traffic crosses two of them: 1.5 times as long."""
    full = tapered(zionex, "dragonfly", leaf_nodes=2, oversubscription=1.0)
    assert "spine_up" not in Topology.build(full, 64).ports
    topology = Topology.build(changed(full, fabric={"detour_share": sourced(0.5)}), 64)
    (block,) = blocks_of(np.zeros(64, dtype=np.int64), topology)
    loads = port_bytes(Stage(Latency(), AllPairs(np.full((1, 1), 16e6))), block, topology)
    np.testing.assert_allclose(loads["spine_up"], 1.5 * 16 * 16e6 * 48 / 64)


def test_without_peer_to_peer_two_gpus_and_the_nic_share_an_up_link(zionex):
    """A ring over servers of 8 GPUs on 4 switches: each GPU sends and receives R through the up-link of its switch; on
    the first server's first switch comes what the NIC receives and sends, R too. Without a second server there is none.
    """
    cluster = staged_box(zionex)
    for ranks, passing in ((8, 0.0), (16, 1.0)):
        topology = Topology.build(cluster, ranks)
        (block,) = blocks_of(np.zeros(ranks, dtype=np.int64), topology)
        loads = port_bytes(Stage(Latency(), Rings(np.full((1, 1), 1e6))), block, topology)
        for port in ("switch_up", "switch_down"):
            shares = loads[port][0] / 1e6
            expected = np.tile([2.0 + passing, 2.0, 2.0, 2.0], ranks // 8)
            np.testing.assert_allclose(shares, expected)
            assert links_used(port, block, topology).tolist() == [list(range(ranks // 2))]
        # Each socket's memory is written and read once for what its 4 GPUs send and for what they receive, and again
        # for what the NIC sends and receives: the GPUs' shares of that.
        np.testing.assert_allclose(loads["ddr"][0].sum() / 1e6, ranks * 2.0 + passing * ranks / 8 * 2.0)


def test_members_on_other_switches_load_the_up_link_of_the_nic(zionex):
    """GPUs 2 and 3 of two servers, on the second switch: what leaves a server passes the first one's up-link."""
    topology = Topology.build(staged_box(zionex), 16)
    instance = np.where(np.isin(np.arange(16) % 8, (2, 3)), 0, -1)
    (block,) = blocks_of(instance, topology)
    loads = port_bytes(Stage(Latency(), Rings(np.full((1, 1), 1e6))), block, topology)
    assert links_used("switch_up", block, topology).tolist() == [[0, 1, 4, 5]]
    np.testing.assert_allclose(loads["switch_up"][0] / 1e6, [1.0, 2.0, 1.0, 2.0])


def test_a_nic_is_no_faster_than_its_pcie_link(zionex):
    """FDR has 6.82 GB/s, its gen3 x8 link 7.88 GB/s, of which the node's fraction is reached."""
    node = load_cluster("deepbench_m40").node
    rate = Topology.build(load_cluster("deepbench_m40"), 16).rates["nic"]
    assert rate == pytest.approx(7.88e9 * node.pcie_fraction.value)
    assert rate < node.nics.nic.bytes_per_s.value
