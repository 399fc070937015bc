"""nccl-tests' rows of a collective, against alpha-beta formulas written here.

ZionEX: 8 GPUs per node at 300 GB/s NVLink, one 25 GB/s NIC each. NCCL 2.30 ``tuning.cc``, ring with the simple
protocol: 8.4 us at the start and 3.4 us per hop inside a node. Only the link fractions come from the model.
"""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from inputs.errors import InputError
from simulator.network import CollectiveModel
from simulator.network.collectives import Call
from simulator.network.size_table import (
    busbw_bytes_per_s,
    group_in_words,
    placed_group,
    size_table,
    size_tables,
)

NVLINK = 300e9
LARGE, SMALL = 2**30, 2**10


@pytest.fixture(scope="module")
def zionex():
    return load_cluster("zionex")


def test_a_large_ring_inside_a_node_takes_its_closed_form(zionex):
    """7/8 of the buffer passes each GPU twice; start and 14 hops; the link class that limits it is NVLink."""
    topology, block = placed_group(zionex, 8)
    model = CollectiveModel.of(zionex, topology, {"all_reduce": "ring"})
    (row,) = size_table(model, block, "all_reduce", [LARGE]).rows
    call = Call("all_reduce", block, np.full((1, 1), float(LARGE)))
    reached = model.link_fractions(call, model.time(call).algorithm)["nvlink"].reached
    expected = (8.4 + 14 * 3.4) * 1e-6 + 2 * 7 / 8 * LARGE / (reached * NVLINK)
    assert (row.algorithm, row.protocol, row.limit) == ("ring", "simple", "nvlink")
    assert row.time_s == pytest.approx(expected, rel=1e-9)
    assert row.algbw_bytes_per_s == pytest.approx(LARGE / expected, rel=1e-9)
    assert row.busbw_bytes_per_s == pytest.approx(2 * 7 / 8 * LARGE / expected, rel=1e-9)


def test_limits_go_from_posts_to_the_nic(zionex):
    """Between nodes a NIC is 12 times slower than NVLink, and a kibibyte is 56 messages to post, not work for links."""
    (found,) = size_tables(zionex, "all_to_all", [64], [SMALL, LARGE])
    assert [row.limit for row in found.rows] == ["posts", "nic"]


@pytest.mark.parametrize(
    ("op", "factor"),
    [
        ("all_reduce", 2 * 15 / 16),
        ("all_gather", 15 / 16),
        ("reduce_scatter", 15 / 16),
        ("all_to_all", 15 / 16),
        ("broadcast", 1.0),
        ("reduce", 1.0),
    ],
)
def test_bus_bandwidth_is_nccl_tests(op, factor):
    """1 GB in 10 ms is 100 GB/s of algbw."""
    assert busbw_bytes_per_s(op, 16, 1e9, 1e-2) == pytest.approx(factor * 100e9)


def test_what_takes_no_time_has_no_bandwidth(zionex):
    (found,) = size_tables(zionex, "all_reduce", [1], [LARGE], algorithm="ring")
    assert [(row.time_s, row.busbw_bytes_per_s, row.algorithm) for row in found.rows] == [(0.0, 0.0, "none")]
    assert found.average_busbw_bytes_per_s == 0.0
    assert found.notes == ()


@pytest.mark.parametrize("placement", ["block", "round_robin", "random"])
@pytest.mark.parametrize(("ranks", "per_node", "nodes"), [(16, None, 2), (16, 2, 8), (3, None, 1), (6, 3, 2)])
def test_the_first_gpus_of_each_node_take_part(zionex, placement, ranks, per_node, nodes):
    topology, block = placed_group(zionex, ranks, per_node, placement)
    members = np.sort(block.ranks[0])
    assert block.size == ranks
    found, counts = np.unique(topology.node_of[members], return_counts=True)
    assert (len(found), set(counts)) == (nodes, {ranks // nodes})
    assert set(topology.local_rank_of[members]) == set(range(ranks // nodes))


def test_average_is_over_sizes_not_time(zionex):
    (found,) = size_tables(zionex, "all_gather", [8], [SMALL, LARGE])
    assert found.average_busbw_bytes_per_s == pytest.approx(np.mean([row.busbw_bytes_per_s for row in found.rows]))


@pytest.mark.parametrize(
    ("ranks", "per_node", "option"),
    [(0, None, "--ranks"), (1_048_577, None, "--ranks"), (8, 0, "--ranks-per-node"), (8, 9, "--ranks-per-node")],
)
def test_impossible_groups_are_refused(zionex, ranks, per_node, option):
    with pytest.raises(InputError) as caught:
        placed_group(zionex, ranks, per_node)
    assert caught.value.file == option


def test_one_is_singular():
    assert group_in_words(1, 1) == "1 rank on 1 node"
    assert group_in_words(16_384, 2048) == "16,384 ranks on 2,048 nodes"


def test_the_limit_is_the_link_that_takes_longest_at_the_rate_that_it_reaches():
    """Sockets of L40S pass 1.7 of their 96 GB/s on: they set the time, though the one NIC carries more of its rate."""
    (found,) = size_tables(load_cluster("l40s"), "all_reduce", [16], [LARGE])
    assert found.rows[0].limit == "socket"


def test_messages_that_a_nic_states_the_cost_of_are_not_called_unmeasured():
    """Slingshot's `post_s` is from all_to_alls on Polaris; ZionEX takes NCCL's constant."""
    (slingshot,) = size_tables(load_cluster("polaris"), "all_to_all", [64], [SMALL])
    (roce,) = size_tables(load_cluster("zionex"), "all_to_all", [64], [SMALL])
    assert not [note for note in slingshot.notes if "nobody measured" in note]
    assert [note for note in roce.notes if "nobody measured" in note]
