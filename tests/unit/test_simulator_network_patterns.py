"""What a pattern puts on each level of links, against a flow for every pair of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from simulator.network.load import mesh_share, over_level
from simulator.network.membership import blocks_of
from simulator.network.patterns import AllPairs, LocalRings, RailRings, Rings, Sends, Together
from simulator.network.topology import Topology
from tests.network_machines import pcie_box, tapered, through_host

RANKS = 64


def machines():
    """A rail-optimised fabric with tapered leaves, a fat tree, boxes of GPUs on PCIe switches, an NVL domain."""
    zionex = load_cluster("zionex")
    yield "rails", tapered(zionex, "rail_optimised", leaf_nodes=2)
    yield "one unit of rails", tapered(zionex, "rail_optimised", leaf_nodes=None)
    yield "fat tree", tapered(zionex, "fat_tree", leaf_nodes=4)
    yield "pcie", pcie_box(zionex)
    yield "NICs below the switches", pcie_box(zionex, "switch")
    yield "through the host", through_host(zionex)


MACHINES = dict(machines())


def crosses(level, a, b):
    """Whether a message from rank a to rank b uses a level: the definition, for one pair."""
    if a == b or level.inside[a] == level.inside[b]:
        return False
    if level.within is not None and level.within[a] != level.within[b]:
        return False
    return level.rails is None or level.rails.leaf[a] != level.rails.leaf[b]


def shift(members, distance, amount):
    """Member i sends to i + distance."""
    return Sends(np.arange(members), (np.arange(members) + distance) % members, amount)


def blocks(topology, rng):
    for instance in (np.zeros(RANKS, dtype=np.int64), np.arange(RANKS) % 8, rng.integers(-1, 3, RANKS)):
        yield from blocks_of(instance, topology)


@pytest.mark.parametrize("placement", ["block", "round_robin", "random"])
@pytest.mark.parametrize("name", MACHINES)
def test_all_pairs_shifts_and_messages_load_each_level_as_a_flow_for_each_pair_does(name, placement):
    rng = np.random.default_rng(5)
    topology = Topology.build(MACHINES[name], RANKS, placement, 3)
    for block in blocks(topology, rng):
        n = block.size
        sent = rng.uniform(0, 1e6, block.ranks.shape)
        share = rng.dirichlet(np.ones(n), block.instance_count)
        shifted = np.zeros((n, n))
        for distance, amount in ((1, 5.0), (2, 3.0)):
            shifted[np.arange(n), (np.arange(n) + distance) % n] += amount
        steps = Together(tuple(shift(n, d, np.full((1, 1), a)) for d, a in ((1, 5.0), (2, 3.0))))
        outwards = np.zeros((n, n))
        outwards[0, 1:] = np.arange(1.0, n)
        messages = Sends(np.zeros(n - 1, dtype=np.int64), np.arange(1, n), np.arange(1.0, n)[None, :])
        cases = (
            (AllPairs(np.full((1, 1), 1e6)), np.full((block.instance_count, n, n), 1e6 / n)),
            (AllPairs(np.full((1, 1), 1e6), sent, share), sent[:, :, None] * share[:, None, :]),
            (steps, np.broadcast_to(shifted, (block.instance_count, n, n))),
            (messages, np.broadcast_to(outwards, (block.instance_count, n, n))),
        )
        for pattern, flows in cases:
            for level in topology.levels:
                used = np.array([[[crosses(level, a, b) for b in row] for a in row] for row in block.ranks])
                traffic = over_level(pattern, block, level)
                for got, axis in ((traffic.out_bytes, 2), (traffic.in_bytes, 1)):
                    expected = (flows * used).sum(axis=axis)
                    np.testing.assert_allclose(np.broadcast_to(got, expected.shape), expected, rtol=1e-7, atol=1e-2)


@pytest.mark.parametrize("name", MACHINES)
def test_rings_cross_each_border_once_in_each_direction(name):
    """Over all rings a group of k members sends as much as one ring carries; rails are never left within a unit."""
    topology = Topology.build(MACHINES[name], RANKS)
    (block,) = blocks_of(np.zeros(RANKS, dtype=np.int64), topology)
    for level in topology.levels:
        out = over_level(Rings(np.full((1, 1), 1e6)), block, level).out_bytes
        label = level.inside if level.rails is None else level.rails.unit
        groups = block.grouping(label)
        expected = 1e6 if groups.width > 1 else 0.0
        if level.within is None:
            np.testing.assert_allclose(groups.sums(np.broadcast_to(out, block.ranks.shape)), expected)
        else:
            inner = groups.count < block.grouping(level.within).count
            assert np.all((np.broadcast_to(out, block.ranks.shape) > 0) == inner)


def test_hierarchical_rings_keep_to_the_node_and_to_the_rail():
    topology = Topology.build(load_cluster("zionex"), RANKS)
    (block,) = blocks_of(np.zeros(RANKS, dtype=np.int64), topology)
    local, rail = LocalRings(np.full((1, 1), 7.0)), RailRings(np.full((1, 1), 3.0))
    levels = {level.name: level for level in topology.levels}
    for pattern, nvlink, nic in ((local, 7.0, 0.0), (rail, 0.0, 3.0), (Together((local, rail)), 7.0, 3.0)):
        assert np.allclose(over_level(pattern, block, levels["nvlink"]).out_bytes, nvlink)
        assert np.allclose(over_level(pattern, block, levels["nic"]).out_bytes, nic)


def test_a_mesh_gives_rings_all_links_and_pairs_the_weakest():
    """DGX-1: GPUs 0 to 3 have 1, 1, 2 links to each other: a ring has 4 of the 6 links, each of the 3 pairs one."""
    topology = Topology.build(load_cluster("dgx1_v100"), 8)
    (four,) = blocks_of(np.where(np.arange(8) < 4, 0, -1), topology)
    (eight,) = blocks_of(np.zeros(8, dtype=np.int64), topology)
    pairs, rings = AllPairs(np.full((1, 1), 1.0)), Rings(np.full((1, 1), 1.0))
    assert mesh_share(rings, four, topology) == pytest.approx(4 / 6)
    assert mesh_share(pairs, four, topology) == pytest.approx(3 / 6)
    assert mesh_share(rings, eight, topology) == 1.0
    pcie = 15.75 * 0.837 / 150
    assert mesh_share(pairs, eight, topology) == pytest.approx(7 * pcie / 3), "three others have no direct link"
    assert mesh_share(pairs, eight, Topology.build(load_cluster("zionex"), 8)) == 1.0


def test_messages_of_a_mesh_go_at_the_pace_of_the_pair_with_the_fewest_links():
    """DGX-1: GPUs 0 and 1 have one of six links between them, 0 and 3 two; a port is as busy as all its pairs."""
    topology = Topology.build(load_cluster("dgx1_v100"), 8)
    (four,) = blocks_of(np.where(np.arange(8) < 4, 0, -1), topology)

    def share(*messages):
        sender, receiver, size = (np.array(part) for part in zip(*messages, strict=True))
        return mesh_share(Sends(sender, receiver, size[None, :].astype(float)), four, topology)

    assert share((0, 1, 1.0)) == pytest.approx(1 / 6)
    assert share((0, 3, 1.0)) == pytest.approx(2 / 6)
    assert share((0, 1, 1.0), (0, 3, 2.0)) == pytest.approx(3 / 6), "three bytes on three links"
    assert share((0, 1, 1.0), (0, 3, 1.0)) == pytest.approx(2 / 6), "the single link takes half of the bytes"
    assert share((0, 1, 0.0)) == share((2, 2, 1.0)) == 1.0, "nothing moves"
    assert mesh_share(shift(4, 1, np.ones((1, 1))), four, topology) == pytest.approx(1 / 6)
