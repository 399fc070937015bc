"""Communicators cut into blocks of like instances."""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from simulator.network.blocks import slot_sums
from simulator.network.membership import blocks_of
from simulator.network.topology import Topology


@pytest.fixture(scope="module")
def topology():
    return Topology.build(load_cluster("dgx1_v100"), 32)


def test_the_world_is_one_instance(topology):
    (block,) = blocks_of(np.zeros(32, dtype=np.int64), topology)
    assert block.ranks.tolist() == [list(range(32))]
    assert (block.size, block.node_count, block.local_size) == (32, 4, 8)
    assert block.uniform
    nics = block.grouping(topology.ports["nic_tx"].link)
    assert nics.numbers.tolist() == [list(range(16))]
    assert set(nics.count.ravel()) == {2}


def test_one_group_per_node_is_one_block(topology):
    (block,) = blocks_of(np.arange(32) // 8, topology)
    assert block.number.tolist() == [0, 1, 2, 3]
    assert block.ranks[2].tolist() == list(range(16, 24))
    assert (block.node_count, block.local_size) == (1, 8)


def test_one_group_per_rail_is_one_block(topology):
    (block,) = blocks_of(np.arange(32) % 8, topology)
    assert block.ranks[3].tolist() == [3, 11, 19, 27]
    assert (block.node_count, block.local_size) == (4, 1)
    assert block.grouping(topology.ports["nic_tx"].link).numbers[3].tolist() == [1, 5, 9, 13]


def test_ranks_in_no_instance_are_left_out(topology):
    instance = np.full(32, -1)
    instance[[5, 9]] = 7
    (block,) = blocks_of(instance, topology)
    assert block.number.tolist() == [7]
    assert block.ranks.tolist() == [[5, 9]]


def test_where_links_differ_groups_of_other_gpus_are_blocks_of_their_own(topology):
    """GPUs 0, 4 and 1, 5 of a DGX-1: two links here, one there may join them."""
    instance = np.full(32, -1)
    for pair, ranks in enumerate(((0, 4), (1, 5), (8, 12), (9, 13))):
        instance[list(ranks)] = pair
    assert [block.number.tolist() for block in blocks_of(instance, topology)] == [[0, 2], [1, 3]]


def test_unlike_instances_are_blocks_of_their_own(topology):
    """8 + 4 members on two nodes, 12 members on two nodes as 6 + 6, and 8 on one node: three blocks."""
    instance = np.full(32, -1)
    instance[:12] = 0
    instance[12:24] = 1
    instance[24:] = 2
    blocks = blocks_of(instance, topology)
    assert sorted(int(n) for block in blocks for n in block.number) == [0, 1, 2]
    uneven = next(block for block in blocks if 0 in block.number)
    assert not uneven.uniform
    assert uneven.local.tolist() == [[8] * 8 + [4] * 4]
    assert uneven.local_size == 8


def test_every_member_stands_once_whatever_the_communicator():
    """Random partitions on a random placement: blocks hold each member once, and slots point back at its places."""
    rng = np.random.default_rng(3)
    topology = Topology.build(load_cluster("dgx1_v100"), 64, "random", 5)
    for _ in range(30):
        instance = rng.integers(-1, rng.integers(1, 9), 64)
        seen = []
        for block in blocks_of(instance, topology):
            assert np.all(instance[block.ranks] == block.number[:, None])
            seen += block.ranks.ravel().tolist()
            for label in (topology.node_of, topology.ports["nic_tx"].link):
                grouping = block.grouping(label)
                own = np.take_along_axis(grouping.numbers, grouping.slot, axis=1)
                assert np.array_equal(own, label[block.ranks])
                for row, counts in zip(own, grouping.count, strict=True):
                    assert [np.sum(row == value) for value in row] == counts.tolist()
        assert sorted(seen) == np.flatnonzero(instance >= 0).tolist()


def test_slot_sums_add_by_slot():
    values = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    slot = np.array([[0, 1, 0], [1, 1, 1]])
    assert slot_sums(values, slot, 2).tolist() == [[5.0, 2.0], [0.0, 56.0]]
    assert slot_sums(np.ones((1, 1)), slot, 2).tolist() == [[2.0, 1.0], [0.0, 3.0]]
