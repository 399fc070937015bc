"""Links between sites: closed forms of messages, collectives and pipelines, and volumes that are conserved."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from benchmarks.oracle import compare
from benchmarks.random_programs import RandomProgram
from hardware_specs import load_cluster
from scenarios.transformer.messages import StageMessages, passing_s
from scenarios.transformer.section import CompressionChoice, TensorCompressionChoice
from simulator.engine import RunOptions, run
from simulator.lowered import PS_PER_S
from simulator.lowering import Machine, build_machine, lower
from simulator.network import CollectiveModel
from simulator.network.collectives import Call
from simulator.network.topology import Topology
from tests.network_machines import idle_call, sites
from workloads.transformer.architecture import Transformer
from workloads.transformer.compression import MessageCompression, TensorCompression
from workloads.transformer.iteration import iteration_graph
from workloads.transformer.settings import ParallelSizes, TransformerSettings

RATE, LATENCY_S = 1e6, 0.02
SOFTWARE_S = 200e-6
"""Most time of starts, hops and posts of the library, and of NICs, beside that of a link of 1 MB/s."""
SIZE = 1e6
GEO = load_cluster("geo_consumer_48")
SQUARE = sites(GEO, {"a": 1, "b": 2, "c": 1}, f"{RATE} B/s", f"{LATENCY_S} s")
"""Three sites, one of them with two nodes of two GPUs, and equal links."""
MODEL = Transformer(
    name="thin", title="a thin decoder", layers=8, hidden=1000, heads=10, kv_heads=10, ffn=4, vocabulary=8,
    sequence=500, gated=False, norm="rms", biases=False, positions="rotary", final_norm=False,
)  # fmt: skip
"""A decoder with messages of 1 MB and next to no compute or parameters."""


def model_of(cluster=SQUARE) -> CollectiveModel:
    return CollectiveModel.of(cluster, Topology.build(cluster, cluster.max_nodes.value * cluster.node.ranks))


def test_a_message_takes_the_latency_of_the_link_and_its_bytes_over_the_rate():
    """A gather of two members is a message; the same ranks inside a site take the library's part alone."""
    model = model_of()
    pair = np.full(8, -1)
    pair[[0, 2]] = 0
    [block] = model.blocks(pair)
    far_s = float(model.time(Call("gather", block, np.full((1, 1), 2 * SIZE), root=1)).seconds.max())
    assert LATENCY_S + SIZE / RATE <= far_s <= LATENCY_S + SIZE / RATE + SOFTWARE_S


@pytest.mark.parametrize(
    ("op", "rounds", "share"),
    [
        ("all_reduce", 4, 4 / 3), ("all_gather", 2, 2 / 3), ("reduce_scatter", 2, 2 / 3),
        ("broadcast", 2, 1.0), ("reduce", 2, 1.0),
    ],
)  # fmt: skip
def test_a_collective_over_three_sites_crosses_each_link_as_its_form_says(op, rounds, share):
    """A ring of r rounds between the sites, and beside it rings at 10 Gb/s inside."""
    model = model_of()
    timed = model.time(idle_call(model, op, SIZE))
    between_s = rounds * LATENCY_S + share * SIZE / RATE
    assert timed.algorithm.name == "over_sites"
    assert between_s <= float(timed.seconds.max()) <= between_s + 4 * SOFTWARE_S + 4 * SIZE / 0.6e9


@pytest.mark.parametrize("op", ["all_to_all", "sendrecv", "all_reduce", "all_gather", "scatter"])
def test_bytes_over_all_links_are_those_that_leave_the_sites(op):
    """Summed over links as over members: nothing is lost or counted twice."""
    model = model_of()
    call = idle_call(model, op, SIZE)
    mesh = next(level.routed for level in model.topology.levels if level.name == "site")
    for stage in model.time(call).algorithm.stages(call):
        over_links = mesh.bytes_over_links(stage.pattern.messages(call.block), call.block)
        sent = np.broadcast_to(
            stage.pattern.crossing(call.block, model.topology.site_of).out_bytes, call.block.ranks.shape
        )
        assert over_links.sum() == pytest.approx(sent.sum())


def test_slow_links_take_longer_and_fast_ones_have_their_own_rate():
    """All links are one class of the fastest one's rate; each message still takes its own link's time."""
    cluster = sites(GEO, {"a": 1, "b": 1, "c": 1}, "1 MB/s", "0 s", {("a", "b"): ("4 MB/s", "0 s")})
    model = model_of(cluster)
    for ends, rate in (((0, 2), 4e6), ((0, 4), 1e6), ((2, 4), 1e6)):
        pair = np.full(6, -1)
        pair[list(ends)] = 0
        [block] = model.blocks(pair)
        taken_s = float(model.time(Call("gather", block, np.full((1, 1), 2 * SIZE), root=1)).seconds.max())
        assert taken_s == pytest.approx(SIZE / rate, abs=SOFTWARE_S)


@pytest.mark.parametrize("ratio", [1.0, 3.0, 100.0, 1e6])
def test_compressed_bytes_follow_their_formulas(ratio):
    topk, bits = TensorCompression("topk", ratio), TensorCompression("quantize", ratio)
    assert topk.sent_bytes(1001, 2, ratio) == min(math.ceil(1001 / ratio) * 6, 2002)
    assert bits.sent_bytes(1001, 2, ratio) == min(math.ceil(2002 / ratio) + 4, 2002)
    assert (topk.reads_of(2), topk.reads_of(4), bits.reads_of(2)) == (3, 5, 2)


def test_kernels_read_and_write_what_the_format_says_and_only_where_it_is_packed():
    """The second place of the boundary is inside a site."""
    packing = MessageCompression(TensorCompression("topk", 10.0), None, ((1.0, 0.0),))
    assert packing.kernels(0, 1000, 2, backward=True) is None
    select, scatter = packing.kernels(0, 1000, 2, backward=False)
    assert select.read_bytes.tolist() == [6000.0, 0.0]
    assert select.write_bytes.tolist() == scatter.read_bytes.tolist() == [600.0, 0.0]
    assert scatter.write_bytes.tolist() == [2000.0, 0.0]
    assert packing.sent_bytes(0, 1000, 2, backward=False).tolist() == [600.0, 2000.0]


def job(stages: int, microbatches: int, **changes) -> TransformerSettings:
    return TransformerSettings(
        **{"model": MODEL, "sequence": 500, "microbatches": microbatches, "sizes": ParallelSizes(pipeline=stages)}
        | changes
    )


def line(stages: int, rates: dict | None = None):
    """A node of two GPUs on each site, of which a stage takes both."""
    return sites(GEO, {f"s{number}": 1 for number in range(stages)}, "1 MB/s", "20 ms", rates)


def iteration_s(settings: TransformerSettings, machine: Machine) -> float:
    """Time of one iteration with kernels and launches of next to no time."""
    free = {"GEMM": 1e6, "HBM": 1e6, "host": 1e6}
    lowering = lower(iteration_graph(settings), machine, improve=free)
    run_of = run(lowering.program, RunOptions(max_iterations=1, keep_last=1)).records[-1]
    return max(int(times.end_ps.max()) for times in run_of.groups) / PS_PER_S


def two_each(stages: int, microbatches: int, **changes) -> TransformerSettings:
    return job(stages, microbatches, sizes=ParallelSizes(pipeline=stages, tensor=2), **changes)


@pytest.mark.parametrize(
    ("stages", "microbatches", "messages"),
    [(2, 2, 2 + 1), (2, 16, 16 + 1), (3, 3, (2 + 1) * 2), (3, 6, (4 + 1) * 2), (4, 4, 4 * 4 - 6), (5, 5, 4 * 5 - 6)],
)
def test_a_pipeline_over_equal_slow_links_takes_its_round_trips(stages, microbatches, messages):
    """1F1B lets at most p micro-batches be on their way.

    Two stages take (m + p - 1) s, three with m = 3 q micro-batches (2 q + 1) 2 s, and m = p of more stages (4 p - 6) s.
    """
    settings = two_each(stages, microbatches)
    message_s = LATENCY_S + settings.message_elements * 2 * 2 / RATE  # both GPUs of a site share the link
    machine = build_machine(line(stages), 2 * stages, launch_s=0.0)
    assert iteration_s(settings, machine) == pytest.approx(messages * message_s, rel=0.01)
    each_s = np.full(stages - 1, message_s)
    assert passing_s(each_s, each_s, microbatches) == pytest.approx(messages * message_s)


ONE_WAY = {
    "both": None,
    "there": CompressionChoice(activations=TensorCompressionChoice(ratio=100.0)),
    "back": CompressionChoice(gradients=TensorCompressionChoice(ratio=100.0)),
}


@pytest.mark.parametrize(("slow", "packed"), [(0, "both"), (1, "both"), (2, "both"), (0, "there"), (1, "back")])
def test_the_cost_of_an_order_is_near_the_time_of_its_run_and_never_above_it(slow, packed):
    """One link of four sites is 20 times slower than the others: it matters after which stage it comes, and whether
    messages of one direction are packed."""
    cluster = line(4, {(f"s{slow}", f"s{slow + 1}"): ("50 kB/s", "20 ms")})
    messages = StageMessages(cluster, two_each(4, 8), ONE_WAY[packed])
    cost_s, settings = messages.cost_s(None), messages.compressed(None)
    taken_s = iteration_s(settings, build_machine(cluster, 8, launch_s=0.0))
    assert cost_s <= taken_s <= 1.05 * cost_s


def chain_of_four():
    """Four sites whose good order is b, d, a, c or the other way."""
    fast = {("b", "d"): ("8 MB/s", "5 ms"), ("d", "a"): ("4 MB/s", "5 ms"), ("a", "c"): ("2 MB/s", "5 ms")}
    return sites(GEO, {"a": 1, "b": 1, "c": 1, "d": 1}, "100 kB/s", "50 ms", fast)


def test_the_searched_order_of_four_sites_is_the_fastest_of_all():
    """Every order is run; the closed form finds one of the fastest."""
    cluster, settings = chain_of_four(), two_each(4, 4)
    messages, taken_s = StageMessages(cluster, settings), {}
    for order in permutations("abcd"):
        taken_s[order] = iteration_s(settings, build_machine(cluster, 8, launch_s=0.0, site_order=order))
    found = messages.best_order()
    assert set(messages.orders()) == set(taken_s), "no two of these sites are alike"
    assert taken_s[found] == pytest.approx(min(taken_s.values()), rel=0.01)
    assert max(taken_s.values()) > 5 * taken_s[found]


def test_chains_and_reversals_find_what_all_orders_contain():
    """The search of many sites, on few: no order costs less."""
    messages = StageMessages(chain_of_four(), two_each(4, 8))
    chains = [messages._improved(chain) for chain in messages._chains()]
    assert min(map(messages.cost_s, chains)) == min(map(messages.cost_s, messages.orders()))


def test_sites_that_are_alike_are_not_tried_twice():
    messages = StageMessages(line(4), two_each(4, 8))
    assert len(list(messages.orders())) == 1


@pytest.mark.parametrize("ratios", ["fixed", "adatopk"])
def test_engine_equals_oracle_with_compression_over_some_places_of_a_boundary(ratios):
    """Data groups on sites of three nodes and of one: half of the messages stay inside a site."""
    cluster = sites(GEO, {"a": 3, "b": 1}, "1 MB/s", "20 ms")
    settings = job(2, 4, sizes=ParallelSizes(pipeline=2, data=4, sharding="optimizer"))
    choice = CompressionChoice(
        activations=TensorCompressionChoice(ratio=20.0),
        gradients=TensorCompressionChoice(ratio=8.0, format="quantize"),
        ratios=ratios,
    )  # fmt: skip
    packed = StageMessages(cluster, settings, choice).compressed(None)
    assert packed.compression.strength == ((0.0, 0.0, 1.0, 1.0),)
    machine = build_machine(cluster, 8, launch_s=1e-6)
    program = lower(iteration_graph(packed), machine).program
    assert compare(RandomProgram(program, 2)) == ""
    plain_s, packed_s = iteration_s(settings, machine), iteration_s(packed, machine)
    assert packed_s < plain_s


def test_a_link_that_others_use_is_slower():
    """Background traffic takes its share of the links between sites."""
    from simulator.network.background import OtherJob

    settings = two_each(2, 4)
    alone, beside = (build_machine(line(2), 4, launch_s=0.0, background=jobs) for jobs in ({}, {"site": OtherJob(0.5)}))
    transfers_s = 5 * settings.message_elements * 2 * 2 / RATE
    assert iteration_s(settings, beside) - iteration_s(settings, alone) == pytest.approx(transfers_s, rel=0.01)


def test_ratios_by_time_give_the_slowest_link_all_and_faster_ones_their_part():
    cluster = line(3, {("s0", "s1"): ("10 MB/s", "0 s")})
    settings = two_each(3, 3)
    choice = CompressionChoice(activations=TensorCompressionChoice(ratio=50.0), ratios="adatopk")
    near, far = StageMessages(cluster, settings, choice).compressed(None).compression.strength
    size = 2 * 2 * settings.message_elements
    assert far == (1.0, 1.0)
    assert near == pytest.approx((size / 10e6 / (size / 1e6 + LATENCY_S),) * 2)
    assert replace(settings, compression=None) == StageMessages(cluster, settings).compressed(None)
