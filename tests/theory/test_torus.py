"""Torus fabrics against closed forms, and against routing every message by itself."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_specs import load_cluster
from simulator.network.collectives import Call
from simulator.network.collectives.algorithm import ALGORITHMS
from simulator.network.destinations import Direct, Spread, tree_messages
from simulator.network.load import port_bytes
from simulator.network.membership import blocks_of
from simulator.network.model import CollectiveModel
from simulator.network.patterns import AllPairs, NearAndFar, Rings, Sends, Together, Trees
from simulator.network.topology import Topology
from tests.network_machines import idle_call, torus

ZIONEX = load_cluster("zionex")
NODE_RANKS = 8


def level_of(topology):
    return next(level for level in topology.levels if level.name == "torus")


def dense(pattern, block, fabric):
    """Bytes over every link ``[I, 2, D, N]``."""
    found = np.zeros((block.instance_count, 2, len(fabric.dimensions) * fabric.nodes))
    by_sense = zip(fabric.loads(pattern.messages(block), block), fabric.used(block), strict=True)
    for sense, (loads, links) in enumerate(by_sense):
        for instance, (row, numbers) in enumerate(zip(loads, links, strict=True)):
            found[instance, sense, numbers] = row
    return found.reshape(block.instance_count, 2, len(fabric.dimensions), fabric.nodes)


def route(fabric, source, target):
    """Links of one message and the share of it each carries: dimension by dimension, a node at a time."""
    at = list(np.unravel_index(source, fabric.dimensions, order="F"))
    goal = np.unravel_index(target, fabric.dimensions, order="F")
    for dimension, length in enumerate(fabric.dimensions):
        ahead = int((goal[dimension] - at[dimension]) % length)
        ways = [(0, 1, ahead)] if 2 * ahead < length else [(1, -1, length - ahead)]
        if ahead and 2 * ahead == length:
            ways = [(0, 1, ahead), (1, -1, ahead)]
        for sense, step, hops in ways if ahead else []:
            here = list(at)
            for _ in range(hops):
                yield sense, dimension, int(np.ravel_multi_index(here, fabric.dimensions, order="F")), 1.0 / len(ways)
                here[dimension] = (here[dimension] + step) % length
        at[dimension] = goal[dimension]


def routed(fabric, flows):
    """Bytes over every link ``[2, D, N]`` of ``flows [N, N]``."""
    loads = np.zeros((2, len(fabric.dimensions), fabric.nodes))
    for source, target in zip(*np.nonzero(flows), strict=True):
        for sense, dimension, node, share in route(fabric, int(source), int(target)):
            loads[sense, dimension, node] += share * flows[source, target]
    return loads


def node_flows(pattern, block, node_of, nodes):
    """What the pattern's messages carry from node to node ``[I, N, N]``, each message by itself."""
    flows = np.zeros((block.instance_count, nodes, nodes))
    for instance, ranks in enumerate(block.ranks):
        place = node_of[ranks]
        for part in pattern.messages(block):
            rows = [values[instance if len(values) > 1 else 0] for values in vars_of(part)]
            if isinstance(part, Spread):
                sent, share = (np.broadcast_to(row, place.shape) for row in rows)
                np.add.at(flows[instance], np.ix_(place, place), sent[:, None] * share[None, :])
            else:
                np.add.at(flows[instance], (place[rows[0]], place[rows[1]]), rows[2])
    return flows


def vars_of(part):
    return (part.sent, part.share) if isinstance(part, Spread) else (part.source, part.target, part.bytes)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(0, 10_000))
def test_links_carry_what_messages_routed_one_by_one_put_on_them(dimensions, seed):
    placement = ("block", "random")[seed % 2]
    rng = np.random.default_rng(seed)
    nodes = int(np.prod(dimensions))
    ranks = nodes * NODE_RANKS - int(rng.integers(0, 4)) if nodes > 1 else NODE_RANKS
    topology = Topology.build(torus(ZIONEX, dimensions), ranks, placement, seed)
    fabric = level_of(topology).routed
    for block in blocks_of(rng.integers(-1, 2, ranks), topology):
        sent = rng.uniform(0, 1e6, block.ranks.shape)
        share = rng.dirichlet(np.ones(block.size), block.instance_count)
        one = np.full((1, 1), 1e6)
        member = np.arange(block.size)
        steps = Together(
            tuple(Sends(member, (member + k) % block.size, amount) for k, amount in ((1, one), (3, 2 * one)))
        )
        for pattern in (AllPairs(one), AllPairs(one, sent, share), Rings(one), Trees(one), steps):
            expected = [routed(fabric, flows) for flows in node_flows(pattern, block, topology.node_of, fabric.nodes)]
            np.testing.assert_allclose(dense(pattern, block, fabric), np.stack(expected), rtol=1e-9, atol=1e-3)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 10_000))
def test_bytes_times_links_is_conserved(dimensions, seed):
    """Over all links as many bytes as each message times the length of its shortest way."""
    rng = np.random.default_rng(seed)
    topology = Topology.build(torus(ZIONEX, dimensions), int(np.prod(dimensions)) * NODE_RANKS)
    fabric = level_of(topology).routed
    (block,) = blocks_of(np.zeros(topology.world_size, dtype=np.int64), topology)
    pattern = AllPairs(np.ones((1, 1)), rng.uniform(0, 1, block.ranks.shape), rng.dirichlet(np.ones(block.size), 1))
    place = np.stack(np.unravel_index(np.arange(fabric.nodes), dimensions, order="F"))
    apart = np.abs(place[:, :, None] - place[:, None, :])
    length = np.array(dimensions)[:, None, None]
    hops = np.minimum(apart, length - apart).sum(axis=0)
    (flows,) = node_flows(pattern, block, topology.node_of, fabric.nodes)
    assert dense(pattern, block, fabric).sum() == pytest.approx((flows * hops).sum(), rel=1e-9)


@pytest.mark.parametrize(("k", "n"), [(4, 1), (4, 2), (4, 3), (8, 2), (6, 3), (16, 1)])
def test_all_to_all_on_a_k_ary_n_cube_is_bound_by_its_bisection(k, n):
    """Half of what one half of the nodes sends crosses 2 N / k links: k / 8 S on every link, S sent by a node."""
    topology = Topology.build(torus(ZIONEX, [k] * n), k**n * NODE_RANKS)
    (block,) = blocks_of(np.zeros(topology.world_size, dtype=np.int64), topology)
    loads = dense(AllPairs(np.full((1, 1), 1e6)), block, level_of(topology).routed)
    np.testing.assert_allclose(loads, k / 8 * 1e6 * NODE_RANKS, rtol=1e-12)


@pytest.mark.parametrize("k", [3, 5, 7])
def test_all_to_all_with_an_odd_number_of_nodes_along_a_dimension(k):
    """(k^2 - 1) / 8 k: no two ways are equally long."""
    topology = Topology.build(torus(ZIONEX, [k, k]), k**2 * NODE_RANKS)
    (block,) = blocks_of(np.zeros(topology.world_size, dtype=np.int64), topology)
    loads = dense(AllPairs(np.full((1, 1), 1e6)), block, level_of(topology).routed)
    np.testing.assert_allclose(loads, (k**2 - 1) / (8 * k) * 1e6 * NODE_RANKS, rtol=1e-12)


def test_a_ring_in_node_order_goes_from_neighbour_to_neighbour():
    """x to x + 1; at the end of a row also one up: the links that close x carry the step to the next row."""
    topology = Topology.build(torus(ZIONEX, [4, 4]), 128)
    (block,) = blocks_of(np.zeros(128, dtype=np.int64), topology)
    (loads,) = dense(Rings(np.full((1, 1), 5.0)), block, level_of(topology).routed)
    last_of_row = np.arange(16) % 4 == 3
    assert np.all(loads[0, 0] == 5.0), "3 steps and the wrap-around of each row"
    assert loads[0, 1][~last_of_row].sum() == 20.0, "after the wrap-around, from x = 0"
    assert np.all(loads[0, 1].reshape(4, 4)[:, 0] == 5.0)
    assert np.all(loads[1] == 0.0), "nothing goes backwards"


def test_the_time_of_an_all_to_all_is_that_of_the_bisection():
    """64 MiB from each of 8 GPUs on each of 4 x 4 x 4 nodes over 10 GB/s: k / 8 x 8 S / rate."""
    cluster = torus(ZIONEX, [4, 4, 4], ["10 GB/s"] * 3)
    model = CollectiveModel.of(cluster, Topology.build(cluster, 512), {"all_to_all": "grouped"})
    timed = model.time(idle_call(model, "all_to_all", 2**26))
    assert timed.stages[0].work.seconds.max() == pytest.approx(4 / 8 * 8 * 2**26 / 10e9)


def test_a_slower_dimension_counts_for_more():
    """Half the rate along y takes twice as long."""
    cluster = torus(ZIONEX, [4, 4], ["10 GB/s", "5 GB/s"])
    model = CollectiveModel.of(cluster, Topology.build(cluster, 128), {"all_to_all": "grouped"})
    timed = model.time(idle_call(model, "all_to_all", 2**26))
    assert timed.stages[0].work.seconds.max() == pytest.approx(4 / 8 * 8 * 2**26 / 5e9)


def test_far_messages_pay_every_link():
    near, far = (torus(ZIONEX, dimensions) for dimensions in ([4], [64]))
    hop_s = ZIONEX.fabric.hop_latency_s.value
    times = []
    for cluster in (near, far):
        model = CollectiveModel.of(cluster, Topology.build(cluster, 32), {"all_to_all": "grouped"})
        times.append(model.time(idle_call(model, "all_to_all", 8)).stages[0].latency_s)
    assert times[1] - times[0] == pytest.approx(1 * hop_s), "4 nodes in a row of 64: no way round, 3 links for 2"


def test_hierarchical_all_to_all_sends_as_much_from_node_to_node_as_a_direct_one():
    topology = Topology.build(torus(ZIONEX, [4, 2]), 64)
    (block,) = blocks_of(np.zeros(64, dtype=np.int64), topology)
    call = Call("all_to_all", block, np.full((1, 1), 1e6))
    loads = [ALGORITHMS.get(f"all_to_all/{name}").stages(call)[-1] for name in ("grouped", "hierarchical")]
    assert isinstance(loads[1].pattern, NearAndFar)
    direct, staged = (port_bytes(stage, block, topology) for stage in loads)
    for port in ("torus_plus", "torus_minus"):
        np.testing.assert_allclose(staged[port], direct[port])


def test_every_node_is_leaf_in_one_tree_and_moves_twice_the_data():
    """Of a double binary tree each node sends and receives 2 S, the two root sides excepted."""
    for nodes in (2, 3, 7, 8, 13):
        topology = Topology.build(torus(ZIONEX, [nodes]), nodes * NODE_RANKS)
        (block,) = blocks_of(np.zeros(topology.world_size, dtype=np.int64), topology)
        sent = np.zeros(block.size)
        for part in tree_messages(block, np.full((1, 1), 0.5)):
            assert isinstance(part, Direct)
            np.add.at(sent, part.source[0], 0.5)
        assert sent.sum() == 2 * (nodes - 1), "up and down one edge less than nodes, half of the data in each tree"
        assert sent.max() <= 2.0


def test_sixteen_thousand_ranks_take_less_than_a_second():
    """As many as on other fabrics: no list of pairs."""
    cluster = torus(ZIONEX, [16, 16, 8])
    start = time.perf_counter()
    model = CollectiveModel.of(cluster, Topology.build(cluster, 16_384))
    seconds = [model.time(idle_call(model, op, 2**26)).seconds.max() for op in ("all_to_all", "all_reduce")]
    assert time.perf_counter() - start < 3.0, "three times what it takes on one busy core"
    assert seconds[0] > 8 * 16 / 8 * 2**26 / 10e9


def test_groups_use_only_the_links_between_their_own_nodes():
    """Two halves of a row of 8: each a line of 4, whose ring goes back the way it came."""
    topology = Topology.build(torus(ZIONEX, [8]), 64)
    (block,) = blocks_of(np.arange(64) // 32, topology)
    loads = dense(Rings(np.full((1, 1), 3.0)), block, level_of(topology).routed)
    there, back = np.zeros((2, 8)), np.zeros((2, 8))
    for half in range(2):
        there[half, 4 * half + np.arange(3)] = 3.0
        back[half, 4 * half + np.arange(1, 4)] = 3.0
    np.testing.assert_array_equal(loads[:, 0, 0], there)
    np.testing.assert_array_equal(loads[:, 1, 0], back)
