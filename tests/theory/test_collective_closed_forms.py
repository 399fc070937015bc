"""Each collective on an idle fabric takes its alpha-beta formula, to 1 ps per phase.

The formulas are written here with the published constants, not with the code's tables: NCCL 2.30 ``tuning.cc`` in
microseconds (base, hop over NVLink, hop over the network) for each protocol, and ZionEX: 8 GPUs per node at 300 GB/s
NVLink, one 25 GB/s NIC each. Only the link fractions come from the model; that they reproduce the published rates is
checked at the end.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from hardware_specs import load_cluster
from simulator.collective_calls import CollectiveCall
from simulator.engine import RunOptions, run
from simulator.lowering import build_machine, lower
from simulator.network import CollectiveModel, Topology
from simulator.network.collectives import Call
from simulator.network.collectives.collnet import COLLNET
from simulator.network.load import port_bytes
from simulator.program import ProgramBuilder, TaskGraph
from tests.network_machines import changed, idle_call, sourced

US = 1e-6
NVLINK, NIC = 300e9, 25e9
RING = {"ll": (6.6, 0.6, 2.7, 0.5), "ll128": (14, 1.9, 4, 0.92), "simple": (8.4, 3.4, 14, 1.0)}
TREE = {"ll": (6.8, 0.6, 5, 0.5), "ll128": (14, 1.25, 8.5, 0.92), "simple": (8.4, 4, 14, 1.0)}
POST = {"ll": 1.0, "ll128": 1.0, "simple": 3.0}
SIZES = (0.0, 4.0, 3e4, 1e6, 256e6)
KIB = 1024
CHUNK = {"ll": 32 * KIB, "ll128": 576_000, "simple": 2048 * KIB}
"""Most that a channel of a ring passes at once: one slot, of Simple four of 512 KiB."""


@pytest.fixture(scope="module")
def zionex():
    return load_cluster("zionex")


def unfitted(name):
    """The cluster with its links at their full rate."""
    return load_cluster(name).model_copy(update={"fitted": None, "calibration": ()})


def model(cluster, ranks, **algorithms):
    return CollectiveModel.of(cluster, Topology.build(cluster, ranks), algorithms)


def fractions(model, call):
    found = model.link_fractions(call, model.candidates(call)[0])
    return found["nvlink"].reached * NVLINK, found["nic"].reached * NIC


def check(model, op, size, expected_of):
    """Every protocol's option has the expected (latency, work) of each phase; all in seconds."""
    call = idle_call(model, op, size)
    nvlink, nic = fractions(model, call)
    options = model.options(call)
    assert options
    for option in options:
        phases = model.phases(call, option)[0]
        expected = expected_of(option.protocol, size, nvlink, nic)
        assert len(phases) == len(expected)
        for phase, (latency_s, work_s) in zip(phases, expected, strict=True):
            assert abs(phase.latency_ps - latency_s * 1e12) <= 1
            assert abs(phase.work_ps - work_s * 1e12) <= 1


def channels(nodes, size, protocol):
    """24 over NVSwitch, 16 over 8 NICs; a channel of Simple for each 32 KiB."""
    most = 24 if nodes == 1 else 16
    return max(1, min(most, int(size // (32 * KIB)))) if protocol == "simple" else most


def pieces(protocol, part, nodes, size):
    """A slice as share of a chunk, and rounds of chunks: two slices of Simple, each of 32 KiB or more."""
    each = part / channels(nodes, size, protocol)
    rounds = math.ceil(each / CHUNK[protocol]) or 1
    chunk = each / rounds
    if not chunk or protocol != "simple":
        return 1.0, rounds
    return min(chunk, max(chunk / 2, 32 * KIB)) / chunk, rounds


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("op", "passes"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
@pytest.mark.parametrize("ranks", [8, 128])
def test_ring(zionex, op, passes, ranks, size):
    nodes = ranks // 8

    def expected(protocol, size, nvlink, nic):
        base, hop, network, payload = RING[protocol]
        steps, far = passes * (ranks - 1), passes * (nodes - 1)
        pace = max(hop, POST[protocol]) if nodes > 1 else hop
        hops = ((steps - far) * pace + far * network) * US
        ring = steps / ranks * size / payload
        near_s, far_s = (ring / nvlink, 0.0) if nodes == 1 else (ring * 7 / 8 / nvlink, ring / 8 / nic)
        work, slices, rounds = max(near_s, far_s), *pieces(protocol, size / ranks, nodes, size)
        path = far_s * slices * far / steps + work / steps * (1 - slices)
        if protocol == "simple":
            path += near_s * slices
        elif nodes == 1:
            path = work / steps
        latency = hops if not size else max(steps * hop * US, rounds * hops + path - work)
        return [(base * US + latency, work)]

    check(model(zionex, ranks, **{op: "ring"}), op, size, expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("op", "passes"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
def test_hierarchical(zionex, op, passes, size):
    def expected(protocol, size, nvlink, nic):
        base, hop, network, payload = RING[protocol]
        work = max(passes * 7 / 8 * size / nvlink, passes * 15 / 16 * size / 8 / nic) / payload
        return [((base + passes * 7 * hop + passes * 15 * network) * US, work)]

    check(model(zionex, 128, **{op: "hierarchical"}), op, size, expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ranks", [8, 16, 24, 128, 4096])
def test_tree(zionex, ranks, size):
    """A node sends 1, 1.5 or 2 S on 2, 3 or more nodes; the first chunk passes every level up and down."""
    nodes = ranks // 8
    passes = {1: 0.0, 2: 1.0, 3: 1.5}.get(nodes, 2.0)
    levels = 7 + math.floor(math.log2(nodes))

    def chunk(protocol, each):
        size = {"ll": 32 * KIB, "ll128": 576_000, "simple": 512 * KIB}[protocol]
        depth = 1 + math.floor(math.log2(nodes)) + 0.8
        limits = {
            "ll": (),
            "ll128": ((depth * 64 / 8, 128 * KIB), (depth * 16 / 8, 32 * KIB)),
            "simple": ((8 * levels, 128 * KIB), (4 * levels, 64 * KIB), (levels, 32 * KIB)),
        }[protocol]
        for number, smallest in limits:
            while each / size < number and size > smallest:
                size /= 2
        return min(size, each)

    def expected(protocol, size, nvlink, nic):
        base, hop, network, payload = TREE[protocol]
        far = 2 * math.floor(math.log2(nodes)) * network * US
        hops = 14 * hop * US + far
        near_s = (2 - min(passes, 1) / 8) * size / nvlink / payload / 0.92
        far_s = passes * size / 8 / nic / payload / 0.92
        if not size:
            return [(base * US + hops, 0.0)]
        each = size / channels(nodes, size, protocol)
        part = chunk(protocol, each) / each
        waits = 2 / 8 / part * network * US if nodes > 1 else 0.0
        work = max(near_s, far_s, waits)
        fill = 7 * part * near_s if protocol == "simple" else 0.0
        fill += 2 * math.floor(math.log2(nodes)) * part * far_s / passes if nodes > 1 else 0.0
        return [(base * US + hops + fill, work)]

    check(model(zionex, ranks, all_reduce="tree"), "all_reduce", size, expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ranks", [8, 16, 128, 4096])
def test_grouped_all_to_all(zionex, ranks, size):
    def expected(protocol, size, nvlink, nic):
        base, hop, network, payload = RING[protocol]
        near, far = 7 / ranks * size, (ranks - 8) / ranks * size
        if ranks == 8:
            return [((base + 7 * hop) * US, near / (nvlink * payload))]
        assert protocol == "simple", "NCCL has no LL buffers for sends over the network"
        posts = (ranks - 8) * 3.0 * US
        return [((base + 7 * hop + network) * US, max(posts, near / nvlink, far / nic))]

    check(model(zionex, ranks), "all_to_all", size, expected)


@pytest.mark.parametrize("size", SIZES)
def test_grouped_with_pxn_pays_a_hop_more_and_the_same_posts(zionex, size):
    """16 nodes of 8 on rails: 7 messages and one change of GPU inside, 120 posts, both links at once."""
    on_rails = changed(zionex, fabric={"kind": "rail_optimised"})

    def expected(protocol, size, nvlink, nic):
        base, hop, network, _ = RING["simple"]
        latency = base + 8 * hop + network
        return [(latency * US, max(120 * 3.0 * US, 7 / 8 * size / nvlink, 15 / 16 * size / nic))]

    options = model(on_rails, 128).options(idle_call(model(on_rails, 128), "all_to_all", size))
    assert [(option.algorithm.name, option.protocol) for option in options] == [("pxn", "simple")]
    check(model(on_rails, 128), "all_to_all", size, expected)


@pytest.mark.parametrize("size", SIZES)
def test_hierarchical_all_to_all_has_two_phases_in_sequence(zionex, size):
    def expected(protocol, size, nvlink, nic):
        base, hop, network, _ = RING[protocol]
        return [
            ((base + 7 * hop) * US, 7 / 8 * size / nvlink),
            ((base + network) * US, max(15 * 3.0 * US, 15 / 16 * size / nic)),
        ]

    check(model(zionex, 128, all_to_all="hierarchical"), "all_to_all", size, expected)


@pytest.mark.parametrize("size", [4.0, 1e6, 256e6])
@pytest.mark.parametrize(("ranks", "nodes"), [(8, 1), (32, 4), (512, 64)])
def test_one_shot(ranks, nodes, size):
    """Four hops of LL over NVLink, two over the network however many nodes; 1.75 S over NVLink, S / 8 over each NIC."""
    calculated = model(unfitted("dgx_h100"), ranks, all_reduce="one_shot")
    (option,) = calculated.options(idle_call(calculated, "all_reduce", size))
    (phase,) = calculated.phases(idle_call(calculated, "all_reduce", size), option)[0]
    assert option.protocol == "simple"
    assert phase.latency_ps == pytest.approx((6.6 + 4 * 0.6 + (2 * 2.7 if nodes > 1 else 0)) * 1e6)
    nic_s = size / 8 / 50e9 if nodes > 1 else 0.0
    assert abs(phase.work_ps - max(7 / 4 * size / 450e9, nic_s) * 1e12) <= 1


@pytest.mark.parametrize("size", [4.0, 1e6, 256e6])
@pytest.mark.parametrize("nodes", [1, 4, 64])
def test_stored_all_to_all(nodes, size):
    """One hop to all peers of a node, then a message to each other node along the rail, 1.2 us each (ConnectX-7)."""
    calculated = model(unfitted("dgx_h100"), 8 * nodes, all_to_all="stored")
    (option,) = calculated.options(idle_call(calculated, "all_to_all", size))
    phases = calculated.phases(idle_call(calculated, "all_to_all", size), option)[0]
    assert phases[0].latency_ps == pytest.approx((6.6 + 0.6) * 1e6)
    assert abs(phases[0].work_ps - 7 / 8 * size / 450e9 * 1e12) <= 1
    assert len(phases) == min(nodes, 2)
    if nodes > 1:
        assert phases[1].latency_ps == pytest.approx(2.7 * 1e6)
        assert abs(phases[1].work_ps - max((nodes - 1) * 1.2e-6, (nodes - 1) / nodes * size / 50e9) * 1e12) <= 1


def test_one_shot_needs_switches_that_may_add(zionex):
    """On Ethernet the library chooses, as if nothing had been named."""
    named, free = (model(zionex, 32, **chosen) for chosen in ({"all_reduce": "one_shot"}, {}))
    call = idle_call(named, "all_reduce", 1e6)
    assert [a.name for a in named.candidates(call)] == [a.name for a in free.candidates(call)]


@pytest.mark.parametrize("size", [4.0, 1e6, 256e6])
@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter"])
def test_nvls(op, size):
    """H100, whose switch adds: the buffer once over each port at 0.85 of the links, 25 us whatever the members."""
    calculated = model(unfitted("dgx_h100"), 8, **{op: "nvls"})
    (option,) = calculated.options(idle_call(calculated, op, size))
    (phase,) = calculated.phases(idle_call(calculated, op, size), option)[0]
    ports = {"all_reduce": (1, 1), "all_gather": (1 / 8, 1), "reduce_scatter": (1, 1 / 8)}[op]
    for port, share in zip(("nvlink_tx", "nvlink_rx"), ports, strict=True):
        assert option.stages[0].work.usage[port] == pytest.approx(0.85 * share), "the other way is nearly idle"
    assert (option.protocol, phase.latency_ps) == ("simple", 25_000_000)
    assert abs(phase.work_ps - size / 450e9 / 0.85 * 1e12) <= 1


@pytest.mark.parametrize("size", [4.0, 1e6, 256e6])
def test_nvls_tree(size):
    """4 H100 nodes: 25 + 4 x 20.9 us; the buffer once over NVLink at 0.85, a tree's bytes over the NICs."""
    calculated = model(unfitted("dgx_h100"), 32, all_reduce="nvls_tree")
    (option,) = calculated.options(idle_call(calculated, "all_reduce", size))
    (phase,) = calculated.phases(idle_call(calculated, "all_reduce", size), option)[0]
    assert phase.latency_ps == 108_600_000
    assert abs(phase.work_ps - max(size / 450e9 / 0.85, 2 * size / 8 / 50e9) * 1e12) <= 1
    assert option.stages[0].work.usage["nvlink_tx"].max() == pytest.approx(4 * 50 / 450)


@pytest.mark.parametrize("size", [4.0, 1e6, 256e6])
def test_collnet(size):
    """4 H100 nodes whose network adds: 2 x 3.7 + 14 x 0.4 + 31 us; a NIC sends an eighth of the buffer once."""
    sharp = changed(unfitted("dgx_h100"), fabric={"in_network_reduction": True})
    calculated = model(sharp, 32, all_reduce="collnet")
    (option,) = calculated.options(idle_call(calculated, "all_reduce", size))
    (phase,) = calculated.phases(idle_call(calculated, "all_reduce", size), option)[0]
    assert (option.algorithm.name, phase.latency_ps) == ("collnet", 44_000_000)
    assert abs(phase.work_ps - max(14 / 8 * size / 450e9, size / 8 / 50e9) / 0.85 * 1e12) <= 1


def test_collnet_needs_a_fabric_that_adds():
    calculated = model(unfitted("dgx_h100"), 32, all_reduce="collnet")
    names = {option.algorithm.name for option in calculated.options(idle_call(calculated, "all_reduce", 1e6))}
    assert names == {"ring", "tree"}


def test_a_network_that_adds_passes_each_part_up_a_leaf_once():
    """Rails of 2 nodes below a leaf: an up-link carries S / 8, one flow for both nodes, and gets the sum back."""
    data = {"in_network_reduction": True, "kind": "rail_optimised", "leaf_nodes": sourced(2)}
    sharp = changed(unfitted("dgx_h100"), fabric=data | {"spine_oversubscription": sourced(2.0)})
    calculated = model(sharp, 32, all_reduce="collnet")
    call = idle_call(calculated, "all_reduce", 8e6)
    (stage,) = COLLNET.stages(call)
    loads = port_bytes(stage, call.block, calculated.topology)
    assert np.allclose(loads["spine_up"], 1e6)
    assert np.allclose(loads["nic_tx"], 1e6)


def test_nvls_needs_a_switch_that_adds(zionex):
    calculated = model(zionex, 8, all_reduce="nvls")
    names = {option.algorithm.name for option in calculated.options(idle_call(calculated, "all_reduce", 1e6))}
    assert names == {"ring", "tree"}


def stepped(calculated, op, size, amounts, *, shift=False):
    """Each step takes a hop and its bytes: over NVLink while the partner is in the node, else over the NICs.

    With a shift only the d members at the end of each node have their partner d further on another one; they share
    neither NIC nor NVLink port, so the slower of the two links sets the time.
    """

    def expected(protocol, size, nvlink, nic):
        base, hop, network, _ = RING["simple"]
        phases = []
        for number, (distance, amount) in enumerate(amounts):
            far = distance >= 8 or shift
            latency = (base if number == 0 else 0) + (network + 3.0 if far else hop)
            near_s = 0.0 if distance >= 8 else amount / nvlink
            phases.append((latency * US, max(near_s, amount / nic if far else 0.0)))
        return phases

    options = calculated.options(idle_call(calculated, op, size))
    assert [option.protocol for option in options] == ["simple"]
    check(calculated, op, size, expected)


@pytest.mark.parametrize("size", [4.0, 1e6, 256e6])
def test_recursive_doubling(zionex, size):
    """32 members: 5 exchanges, three of them inside the nodes of 8."""
    distances = [1, 2, 4, 8, 16]
    calculated = model(zionex, 32, all_reduce="recursive_doubling", all_gather="recursive_doubling")
    stepped(calculated, "all_reduce", size, [(d, size) for d in distances])
    stepped(calculated, "all_gather", size, [(d, size * d / 32) for d in distances])


@pytest.mark.parametrize("size", [4.0, 1e6, 256e6])
def test_halving_doubling(zionex, size):
    there = [(1, size / 2), (2, size / 4), (4, size / 8), (8, size / 16), (16, size / 32)]
    calculated = model(zionex, 32, **dict.fromkeys(("all_reduce", "reduce_scatter"), "halving_doubling"))
    stepped(calculated, "reduce_scatter", size, there)
    stepped(calculated, "all_reduce", size, there + there[::-1])


def test_halving_doubling_moves_what_a_ring_moves():
    """2 (n - 1) / n of the buffer."""
    amounts = [0.5 / d for d in (1, 2, 4, 8, 16)]
    assert 2 * sum(amounts) == 2 * 31 / 32


@pytest.mark.parametrize("size", [4.0, 1e6, 256e6])
def test_bruck(zionex, size):
    """24 members: blocks 1 to 23 with bit 1, 2, 4, 8, 16 set are 12, 12, 12, 8, 8."""
    calculated = model(zionex, 24, all_to_all="bruck", all_gather="bruck")
    blocks = {d: sum(1 for number in range(1, 24) if number & d) for d in (1, 2, 4, 8, 16)}
    assert list(blocks.values()) == [12, 12, 12, 8, 8]
    stepped(calculated, "all_to_all", size, [(d, size * k / 24) for d, k in blocks.items()], shift=True)
    stepped(calculated, "all_gather", size, [(d, size * min(d, 24 - d) / 24) for d in blocks], shift=True)


TREE_STEPS = [16, 8, 4, 2, 1]


@pytest.mark.parametrize("size", [4.0, 1e6, 256e6])
def test_binomial(zionex, size):
    """32 members: five steps, the first two between nodes; a broadcast sends everything, a scatter halves."""
    calculated = model(zionex, 32, **dict.fromkeys(("broadcast", "reduce", "scatter", "gather"), "binomial"))
    whole, parts = [(d, size) for d in TREE_STEPS], [(d, size * d / 32) for d in TREE_STEPS]
    stepped(calculated, "broadcast", size, whole)
    stepped(calculated, "reduce", size, whole[::-1])
    stepped(calculated, "scatter", size, parts)
    stepped(calculated, "gather", size, parts[::-1])


def test_binomial_of_24_members_has_no_more_parts_than_receivers(zionex):
    """At distance 16 member 16 gets the parts of 16 to 23, eight of them."""
    calculated = model(zionex, 24, scatter="binomial")
    stepped(calculated, "scatter", 1e6, [(d, 1e6 * min(d, 24 - d) / 24) for d in TREE_STEPS])


@pytest.mark.parametrize("size", [4.0, 1e6, 256e6])
def test_scatter_and_exchanges(zionex, size):
    calculated = model(zionex, 32, broadcast="scatter_doubling", reduce="scatter_doubling")
    there = [(d, size * d / 32) for d in TREE_STEPS]
    stepped(calculated, "broadcast", size, there + there[::-1])
    stepped(calculated, "reduce", size, there + there[::-1])


@pytest.mark.parametrize("size", [4.0, 1e6, 256e6])
@pytest.mark.parametrize("op", ["broadcast", "reduce"])
def test_scatter_and_a_ring(zionex, op, size):
    """32 members: a block passes 31 of the ring's 32 hops, all four between nodes among them at worst."""

    def expected(protocol, size, nvlink, nic):
        base, hop, network, _ = RING["simple"]
        ring = ((27 * hop + 4 * (network + 3.0)) * US, 31 / 32 * size / nic)
        tree = [
            ((network + 3.0 if d >= 8 else hop) * US, size * d / 32 / (nic if d >= 8 else nvlink)) for d in TREE_STEPS
        ]
        phases = [*tree, ring] if op == "broadcast" else [ring, *reversed(tree)]
        return [(phases[0][0] + base * US, phases[0][1]), *phases[1:]]

    check(model(zionex, 32, **{op: "scatter_ring"}), op, size, expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ranks", [2, 8, 16, 128])
def test_sendrecv(zionex, ranks, size):
    """The first and last member of each node use their NICs, the others NVLink: the slower link sets the time.

    Inside a node a message has 32 / n channels of 20.4 GB/s, twice as many while a channel's part is above 16 MiB.
    """
    channels = {2: 16, 8: 16 if size == 256e6 else 4}

    def expected(protocol, size, nvlink, nic):
        base, hop, network, payload = RING[protocol]
        if ranks <= 8:
            return [((base + hop) * US, size / min(nvlink * payload, channels[ranks] * 20.4e9))]
        assert protocol == "simple"
        return [((base + network + 3.0) * US, max(size / nvlink, size / nic))]

    check(model(zionex, ranks), "sendrecv", size, expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op", ["gather", "scatter"])
def test_gather_and_scatter_are_the_roots_messages(zionex, op, size):
    def expected(protocol, size, nvlink, nic):
        base, hop, network, _ = RING[protocol]
        return [((base + 7 * hop + network) * US, max(24 * 3.0 * US, 7 / 32 * size / nvlink, 24 / 32 * size / nic))]

    check(model(zionex, 32), op, size, expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op", ["all_gather", "reduce_scatter"])
def test_pat_takes_log2_steps_and_a_little_for_each_member(zionex, op, size):
    """One GPU on each of 16 nodes: 8 + 4 x 14 / 3.5 + 16 x 2.8 us, three quarters of the NIC."""
    calculated = model(zionex, 128, **{op: "pat"})
    (block,) = calculated.blocks(np.where(np.arange(128) % 8 == 0, 0, -1))
    call = Call(op, block, np.full((1, 1), size))
    (option,) = calculated.options(call)
    (phase,) = calculated.phases(call, option)[0]
    assert (option.algorithm.name, option.protocol) == ("pat", "simple")
    assert phase.latency_ps == 68_800_000
    nic = calculated.link_fractions(call, option.algorithm)["nic"].reached * NIC
    assert abs(phase.work_ps - 15 / 16 * size / nic / 0.75 * 1e12) <= 1


def test_pat_is_nothing_for_several_gpus_on_a_node(zionex):
    calculated = model(zionex, 32, all_gather="pat")
    assert {option.algorithm.name for option in calculated.options(idle_call(calculated, "all_gather", 1e6))} == {
        "ring"
    }


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "near", "far"), [("pairwise", 7, 120), ("linear", 1, 4)])
def test_pairwise_and_linear(zionex, name, near, far, size):
    """A hop and a post for each message; or a hop for each window of 32, and the posts beside the transfers."""

    def expected(protocol, size, nvlink, nic):
        base, hop, network, _ = RING["simple"]
        posts = 120 * 3.0
        latency = base + near * hop + far * network + (posts if name == "pairwise" else 0.0)
        pace = 0.0 if name == "pairwise" else posts * US
        return [(latency * US, max(pace, 7 / 128 * size / nvlink, 120 / 128 * size / nic))]

    check(model(zionex, 128, all_to_all=name), "all_to_all", size, expected)


def test_exchanges_in_pairs_need_a_power_of_two(zionex):
    """24 members: the forced algorithm does not apply, and the library's own takes its place."""
    calculated = model(zionex, 24, all_gather="recursive_doubling")
    assert calculated.time(idle_call(calculated, "all_gather", 1e6)).algorithm.name != "recursive_doubling"


@pytest.mark.parametrize("op", ["broadcast", "reduce"])
def test_chain_passes_the_buffer_once(zionex, op):
    def expected(protocol, size, nvlink, nic):
        base, hop, network, payload = RING[protocol]
        pace = max(hop, POST[protocol])
        return [((base + 14 * pace + network) * US, max(size * 7 / 8 / nvlink, size / 8 / nic) / payload)]

    check(model(zionex, 16), op, 1e8, expected)


def test_an_all_to_all_of_1_kib_over_4096_ranks_is_its_messages(zionex):
    """4095 messages of 0.25 B: 4088 posts of 3 us and 7 NVLink hops are over 99 % of the time."""
    calculated = model(zionex, 4096)
    time_s = float(calculated.time(idle_call(calculated, "all_to_all", 1024.0)).seconds[0, 0])
    assert 4088 * 3.0 * US < time_s < 4088 * 3.0 * US * 1.01


@pytest.mark.parametrize(
    ("op", "ranks", "size", "algbw"),
    [("all_to_all", 128, 256e6, 7e9), ("all_reduce", 128, 256e6, 60e9), ("all_to_all", 8, 256e6, 200e9)],
)
def test_published_zionex_rates_come_out_exactly(zionex, op, ranks, size, algbw):
    """The calibration is a closed form, so the points return to the digits of their shares."""
    calculated = model(zionex, ranks)
    time_s = float(calculated.time(idle_call(calculated, op, size)).seconds[0, 0])
    assert size / time_s == pytest.approx(algbw, rel=1e-5)


@pytest.mark.parametrize("name", ["zionex", "dgx_a100_40", "dgx_a100_80", "dgx_h100", "dgx1_v100", "dgx2_v100"])
def test_every_calibration_point_of_every_shipped_cluster_comes_out(name):
    from simulator.network.calibration import point_block

    cluster = load_cluster(name).model_copy(update={"fitted": None})
    assert cluster.calibration
    for point in cluster.calibration:
        topology, block = point_block(cluster, point)
        calculated = CollectiveModel.of(cluster, topology)
        timed = calculated.time(Call(point.op, block, np.full((1, 1), point.bytes)))
        assert float(timed.seconds[0, 0]) == pytest.approx(point.time_s, rel=1e-5), (name, point.op, point.ranks)


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "barrier"])
def test_the_engine_takes_as_long_as_the_phases(zionex, op):
    """One collective on an idle fabric: the iteration ends after the sum of its phases, to the picosecond."""
    builder = ProgramBuilder("all", np.arange(32), ["comm"])
    builder.task("c", "comm", CollectiveCall(op, "world", 1e7))
    graph = TaskGraph((builder.build(),), {"world": np.zeros(32, dtype=np.int64)})
    machine = build_machine(zionex, 32, launch_s=5e-6)
    lowering = lower(graph, machine)
    (activity,) = lowering.program.activities
    expected_ps = sum(phase.latency_ps + phase.work_ps for phase in activity.phases)
    result = run(lowering.program, RunOptions(max_iterations=1))
    assert int(result.iteration_end_ps[0]) == expected_ps
    assert lowering.collectives[0].alone_s * 1e12 == pytest.approx(expected_ps, abs=len(activity.phases))
