"""Bytes of uneven all_to_all against a flow for every pair, and conservation of bytes."""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from simulator.network.collectives import ALGORITHMS, Call
from simulator.network.levels import LEVEL_PORTS
from simulator.network.load import over_level, port_bytes
from simulator.network.membership import blocks_of
from simulator.network.topology import Topology


@pytest.fixture(scope="module")
def dgx1():
    return load_cluster("dgx1_v100")


def uneven_call(block, rng):
    """A call with random sizes, some ranks sending or receiving nothing, and its flow matrices ``[I, n, n]``."""
    shape = block.ranks.shape
    sent = rng.uniform(0, 1e6, shape) * (rng.random(shape) > 0.2)
    weights = rng.uniform(0.1, 1, shape) * (rng.random(shape) > 0.2) + 1e-12
    weights /= weights.sum(axis=1, keepdims=True)
    call = Call("all_to_all", block, sent.mean(axis=1, keepdims=True), sent, weights)
    return call, sent[:, :, None] * weights[:, None, :]


def pair_sums(flows, mask):
    """Bytes out of and into each member over the pairs in ``mask``."""
    return (flows * mask).sum(axis=2), (flows * mask).sum(axis=1)


def cases(dgx1):
    rng = np.random.default_rng(11)
    for placement in ("block", "random"):
        topology = Topology.build(dgx1, 32, placement, 2)
        for instance in (np.zeros(32, dtype=np.int64), np.arange(32) % 2, rng.integers(0, 3, 32)):
            for block in blocks_of(instance, topology):
                yield rng, topology, block


def over(stage, block, topology, name):
    """Bytes that each member of the first instance sends and receives over a level."""
    (level,) = (level for level in topology.levels if level.name == name)
    traffic = over_level(stage.pattern, block, level)
    return tuple(np.broadcast_to(amount, block.ranks.shape)[0] for amount in (traffic.out_bytes, traffic.in_bytes))


def test_grouped_equals_the_flows_of_all_pairs(dgx1):
    for rng, topology, block in cases(dgx1):
        call, flows = uneven_call(block, rng)
        (stage,) = ALGORITHMS.get("all_to_all/grouped").stages(call)
        node = topology.node_of[block.ranks]
        same_node = node[:, :, None] == node[:, None, :]
        near = pair_sums(flows, same_node & ~np.eye(block.size, dtype=bool))
        far = pair_sums(flows, ~same_node)
        for name, expected in (("nvlink", near), ("nic", far)):
            for got, amount in zip(over(stage, block, topology, name), expected, strict=True):
                np.testing.assert_allclose(got, amount[0], rtol=1e-7, atol=1e-2)


def test_hierarchical_all_to_all_equals_the_flows_through_the_rails(dgx1):
    """First to the local member on the destination's rail, then along the rail; pair by pair."""
    rng = np.random.default_rng(4)
    topology = Topology.build(dgx1, 32)
    (block,) = blocks_of(np.zeros(32, dtype=np.int64), topology)
    call, flows = uneven_call(block, rng)
    near, far = ALGORITHMS.get("all_to_all/hierarchical").stages(call)
    first, second = np.zeros((32, 32)), np.zeros((32, 32))
    for i in range(32):
        for j in range(32):
            relay = i // 8 * 8 + j % 8
            first[i, relay] += flows[0, i, j] * (relay != i)
            second[relay, j] += flows[0, i, j] * (relay != j)
    for stage, name, pairs in ((near, "nvlink", first), (far, "nic", second)):
        out, into = over(stage, block, topology, name)
        np.testing.assert_allclose(out, pairs.sum(axis=1), rtol=1e-9, atol=1e-3)
        np.testing.assert_allclose(into, pairs.sum(axis=0), rtol=1e-9, atol=1e-3)


@pytest.mark.parametrize("name", ALGORITHMS.names())
def test_what_leaves_arrives(dgx1, name):
    """Over all ports of an instance, bytes sent equal bytes received, per link class."""
    algorithm, op = ALGORITHMS.get(name), name.split("/")[0]
    for rng, topology, block in cases(dgx1):
        if not algorithm.applies(block):
            continue
        calls = [Call(op, block, np.full((1, 1), 1e6))]
        calls += [uneven_call(block, rng)[0]] if op == "all_to_all" else []
        for call in calls:
            for stage in algorithm.stages(call):
                loads = port_bytes(stage, block, topology)
                for out, into in (ports for ports in LEVEL_PORTS.values() if len(ports) == 2):
                    sent, received = (loads.get(port, np.zeros((1, 1))) for port in (out, into))
                    np.testing.assert_allclose(sent.sum(), received.sum(), rtol=1e-9)


def test_even_sizes_given_per_rank_are_the_even_call(dgx1):
    """The general path with equal sizes gives the traffic of the scalar path."""
    topology = Topology.build(dgx1, 32)
    (block,) = blocks_of(np.zeros(32, dtype=np.int64), topology)
    even = Call("all_to_all", block, np.full((1, 1), 1e6))
    general = Call("all_to_all", block, np.full((1, 1), 1e6), np.full((1, 32), 1e6), np.full((1, 32), 1 / 32))
    for name in ("all_to_all/grouped", "all_to_all/hierarchical"):
        for one, two in zip(ALGORITHMS.get(name).stages(even), ALGORITHMS.get(name).stages(general), strict=True):
            loads, same = port_bytes(one, block, topology), port_bytes(two, block, topology)
            assert loads.keys() == same.keys()
            for port in loads:
                np.testing.assert_allclose(same[port], np.broadcast_to(loads[port], same[port].shape), rtol=1e-9)
