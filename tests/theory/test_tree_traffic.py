"""NCCL's trees, message by message: what each node sends and receives over its NICs.

The trees are built here from NCCL's own description, not from the code: in the first one node 0 is the root, and a
node's parent is found by moving its lowest set bit up; in the second one every node is in the mirrored place (shifted
by one for an odd number). Each carries half of the buffer up and the sum down again.
"""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from simulator.network.collectives import Call
from simulator.network.collectives.collnet import COLLNET
from simulator.network.collectives.nvls_tree import NVLS_TREE
from simulator.network.collectives.tree import TREE
from simulator.network.destinations import tree_passes
from simulator.network.load import port_bytes
from simulator.network.size_table import placed_group, size_tables
from tests.network_machines import changed

SIZE = 64e6
BUSIEST = {2: 1.0, 3: 1.5, 4: 2.0, 5: 2.0, 8: 2.0}
"""Buffers that the busiest node sends, by nodes."""


def parent(node, nodes):
    """Node above in the first tree; None for the root."""
    if node == 0:
        return None
    bit = 1
    while not node & bit:
        bit *= 2
    up = (node ^ bit) | (2 * bit)
    return up if up < nodes else node ^ bit


def messages(nodes):
    """(sender, receiver) of every half of the buffer, up and down, in both trees."""
    places = [list(range(nodes)), [(n + 1) % nodes for n in range(nodes)] if nodes % 2 else list(range(nodes))[::-1]]
    for place in places:
        for node in range(1, nodes):
            child, above = place[node], place[parent(node, nodes)]
            yield child, above
            yield above, child


def sent(nodes):
    """Buffers that each node sends."""
    return np.bincount([sender for sender, _ in messages(nodes)], minlength=nodes) / 2


@pytest.mark.parametrize("nodes", BUSIEST)
def test_the_count_of_messages(nodes):
    """Two nodes exchange the buffer once; from four on a node with children in one tree moves it twice."""
    received = np.bincount([receiver for _, receiver in messages(nodes)], minlength=nodes) / 2
    assert np.array_equal(received, sent(nodes)), "what goes up comes down"
    assert sent(nodes).sum() == 2 * (nodes - 1), "up and down every edge of two trees with half of the data"
    assert sent(nodes).max() == BUSIEST[nodes] == tree_passes(nodes)
    assert tree_passes(1) == 0.0


@pytest.mark.parametrize("nodes", BUSIEST)
@pytest.mark.parametrize("algorithm", [TREE, NVLS_TREE, COLLNET])
def test_ports_carry_the_messages(nodes, algorithm):
    """Each of the 8 NICs of a node carries an eighth; a network that adds gets the buffer once from every node."""
    cluster = changed(load_cluster("dgx_h100"), fabric={"in_network_reduction": True})
    topology, block = placed_group(cluster, 8 * nodes)
    (stage,) = algorithm.stages(Call("all_reduce", block, np.full((1, 1), SIZE)))
    loads = port_bytes(stage, block, topology)
    expected = np.ones(nodes) if algorithm is COLLNET else sent(nodes)
    for port in ("nic_tx", "nic_rx"):
        assert loads[port].reshape(nodes, 8) == pytest.approx(np.repeat(expected[:, None], 8, axis=1) * SIZE / 8)


@pytest.mark.parametrize(("nodes", "leaf_nodes"), [(4, 2), (6, 2), (8, 4)])
def test_a_leaf_switch_passes_the_messages_that_leave_it(nodes, leaf_nodes):
    from tests.network_machines import tapered

    topology, block = placed_group(tapered(load_cluster("zionex"), "fat_tree", leaf_nodes), 8 * nodes)
    (stage,) = TREE.stages(Call("all_reduce", block, np.full((1, 1), SIZE)))
    leaving = [a // leaf_nodes for a, b in messages(nodes) if a // leaf_nodes != b // leaf_nodes]
    expected = np.bincount(leaving, minlength=nodes // leaf_nodes) / 2 * SIZE
    assert port_bytes(stage, block, topology)["spine_up"][0] == pytest.approx(expected)


@pytest.mark.parametrize(("mib", "measured_us"), [(2, 113), (4, 154), (8, 231), (16, 421), (32, 812)])
def test_trees_over_two_h100_with_nothing_fitted(mib, measured_us):
    """A published series of two nodes of one GPU each with trees forced: within 15 %."""
    cluster = load_cluster("dgx_h100").model_copy(update={"fitted": None, "calibration": ()})
    (table,) = size_tables(cluster, "all_reduce", [2], [mib * 2.0**20], ranks_per_node=1, algorithm="tree")
    assert table.rows[0].time_s * 1e6 == pytest.approx(measured_us, rel=0.15)
