"""Blocks out of core: memory by hand and over runs, copies of a plan, times against closed forms and brute force."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise, product

import pytest

from benchmarks.oracle import compare
from benchmarks.random_programs import RandomProgram
from hardware_specs import load_cluster
from scenarios.convnet.block_search import OF_A_PLAN, BlockSearch, StepTimes
from scenarios.convnet.memory_curve import memory_curve
from scenarios.convnet.out_of_core import CopiedBytes
from simulator.collective_calls import CollectiveCall
from simulator.counted_run import counted_run
from simulator.engine import RunOptions
from simulator.lowering import Machine, build_machine, lower
from simulator.operators import Copy, HostWork
from workloads.convnet.all_reduce import single_graph
from workloads.convnet.block_plan import DECISIONS, uniform_plan
from workloads.convnet.blocks import blocks_of
from workloads.convnet.builder import NetworkBuilder
from workloads.convnet.catalog import NETWORKS, network
from workloads.convnet.layers import Network
from workloads.convnet.memory import memory_per_rank
from workloads.convnet.out_of_core import OutOfCore
from workloads.convnet.settings import ConvnetSettings
from workloads.convnet.swap_schedule import BlockBytes, SwapSchedule
from workloads.convnet.swapping_pass import host_update_s, out_of_core_graph

IMAGES = 64
SETTINGS = ConvnetSettings("toy", 1, 1, IMAGES, "horovod_nccl")
PLENTY = 1e15


def toy(channels: tuple[int, ...]) -> Network:
    """Blocks of two convolutions each: input and three tensors inside are kept."""
    net = NetworkBuilder("toy", 56)
    x = net.images
    for width in channels:
        x = net.conv_bn(net.conv_bn(x, width, 3), width, 3)
    net.dense(net.mean(x), 10)
    return net.build()


TOY = toy((64, 96, 64))
TOY_ENDS = ("relu_1", "relu_3", "relu_5", "bias_0")


@cache
def machine(pcie_speed: float = 1.0) -> Machine:
    made = build_machine(load_cluster("dgx1_v100"), 8, launch_s=0.0)
    return made if pcie_speed == 1.0 else made.improved({"PCIe/DDR": pcie_speed})


def job(decisions, room: float = PLENTY, *, weights="keep", settings=SETTINGS, net=TOY, ends=TOY_ENDS) -> OutOfCore:
    plan = replace(uniform_plan(net, "keep"), last_layers=ends, decisions=tuple(decisions))
    return OutOfCore.of(net, settings, plan, room, weights)


def engine_s(one: OutOfCore, on: Machine | None = None) -> float:
    program = lower(out_of_core_graph(one), on or machine()).program
    return float(counted_run(program, RunOptions(max_iterations=1)).iteration_end_ps[0]) / 1e12


def drawn_jobs(count: int, seed: int, **of_job) -> list[OutOfCore]:
    """Random decisions, in the least room in which they can run or a little more."""
    source, found = random.Random(seed), []
    for _ in range(count):
        decisions = [source.choice(DECISIONS) for _ in TOY_ENDS]
        least = least_room(job(decisions, **of_job))
        found.append(job(decisions, least * source.choice((1.0, 1.0, 1.1, 1.5)), **of_job))
    return found


def least_room(one: OutOfCore) -> float:
    """Smallest room in which a plan can run, within a part in 10,000."""
    low, high = 0.0, one.schedule.peak_bytes
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if replace(one, room_bytes=middle).schedule.lacking_bytes > 0 else (low, middle)
    return high


@pytest.mark.parametrize("name", NETWORKS)
def test_blocks_keep_what_their_network_keeps(name):
    net = network(name)
    blocks = blocks_of(net)
    assert [number for block in blocks for number in block.layers] == list(range(len(net.layers)))
    assert sum(b.input_elements + b.inner_elements for b in blocks) + net.image.elements == net.kept_elements
    assert sum(b.parameters for b in blocks) == net.parameters
    assert all(one.output_elements == two.input_elements for one, two in pairwise(blocks))


def test_without_decisions_the_iteration_is_that_of_the_network():
    settings = replace(SETTINGS, model="resnet50")
    one = OutOfCore.of(network("resnet50"), settings, uniform_plan(network("resnet50"), "keep"), PLENTY)
    plain, planned = (g.programs[0] for g in (single_graph(one.network, settings), out_of_core_graph(one)))
    assert planned.names == plain.names
    assert planned.work == plain.work
    assert memory_per_rank(one.network, settings, one).total("hbm") == memory_per_rank(one.network, settings).total(
        "hbm"
    )
    assert CopiedBytes.of(one).both == 0.0


def by_hand(decisions, room: float) -> SwapSchedule:
    """Three blocks with inputs of 0, 2 and 3 bytes, and 10, 20 and 5 inside; a ReLU reads its output again."""
    blocks = blocks_of(TOY, ("relu_1", "relu_3", "bias_0"))
    sizes = [BlockBytes(0.0, 10.0, 2.0), BlockBytes(2.0, 20.0, 3.0), BlockBytes(3.0, 5.0, 0.0)]
    return SwapSchedule(blocks, sizes, decisions, room)


@pytest.mark.parametrize(
    ("decisions", "peak", "least"),
    [
        (("keep", "keep", "keep"), 40.0, 40.0),  # 0 + 10, 2 + 20, 3 + 5
        # 2 bytes stay of block 0, then 23 and 5 come; at the end 2 and again 10
        (("recompute", "keep", "keep"), 30.0, 30.0),
        # never more than block 1 with both of its neighbours' tensors, 2 + 20 + 3; 40 + 22 + 10 if nothing waits
        (("swap", "swap", "keep"), 72.0, 25.0),
        (("recompute", "recompute", "keep"), 25.0, 25.0),  # 2 + 3 stay, and 20 come
    ],
)
def test_memory_by_hand(decisions, peak, least):
    plenty = by_hand(decisions, PLENTY)
    assert plenty.lacking_bytes == 0.0
    found = [room for room in range(60) if by_hand(decisions, float(room)).lacking_bytes <= 0.0]
    assert (plenty.peak_bytes, float(found[0])) == (peak, least)
    assert by_hand(decisions, least - 1.0).lacking_bytes == 1.0


@pytest.mark.parametrize("weights", ["keep", "swap"])
def test_what_is_taken_is_freed(weights):
    for decisions in product(DECISIONS, repeat=4):
        schedule = job(decisions, weights=weights).schedule
        taken, freed = (sum(map(of, schedule.steps)) for of in (schedule.takes_bytes, schedule.frees_bytes))
        assert taken == freed


@pytest.mark.parametrize("weights", ["keep", "swap"])
@pytest.mark.parametrize("pcie_speed", [1.0, 0.2, 20.0])
def test_no_run_takes_more_memory_than_there_is(weights, pcie_speed):
    """Whatever the copies take: waits hold for any times; and rooms are used, or less would do."""
    for one in drawn_jobs(8, seed=int(10 * pcie_speed), weights=weights):
        held = [moment.bytes for moment in memory_curve(one, machine(pcie_speed))]
        assert max(held) <= one.schedule.peak_bytes <= one.room_bytes
        assert held[-1] == 0.0


@pytest.mark.parametrize(
    "changes",
    [{}, {"strategy": "horovod_mpi"}, {"strategy": "horovod_nccl"}, {"strategy": "baidu_ring"}],
    ids=["alone", "mpi", "nccl", "baidu"],
)
def test_engine_equals_oracle(changes):
    ranks = {"world_size": 2, "local_world_size": 2} if changes else {}
    for weights in ("keep", "swap"):
        for one in drawn_jobs(1, 5, weights=weights, settings=replace(SETTINGS, **ranks, **changes)):
            program = lower(out_of_core_graph(one), machine()).program
            assert compare(RandomProgram(program, 2)) == ""


def test_copies_are_those_of_the_plan():
    for one in drawn_jobs(10, 2):
        program, found = out_of_core_graph(one).programs[0], Counter[str]()
        for work in program.work:
            if isinstance(work, Copy):
                found[work.direction] += work.bytes
        bytes_of = {
            "keep": lambda _: 0.0, "recompute": lambda _: 0.0,
            "recompute_swapped": lambda sizes: sizes.input, "swap": lambda sizes: sizes.input + sizes.inner,
        }  # fmt: skip
        planned = sum(bytes_of[d](sizes) for d, sizes in zip(one.plan.decisions, one.sizes, strict=True))
        assert found["d2h"] == found["h2d"] == planned == one.schedule.out_bytes


def test_estimates_are_times_of_runs_without_launches():
    for one in drawn_jobs(8, 3) + drawn_jobs(4, 4, weights="swap"):
        assert StepTimes(machine().compute).iteration_s(one) == pytest.approx(engine_s(one), rel=2e-3)


def test_with_an_infinitely_fast_link_swapping_costs_nothing():
    """A copy then takes the start of a kernel, and at most one is waited for at each block and pass."""
    start_s = machine().compute.duration_s(Copy(1.0, "h2d"))
    in_memory = engine_s(job(["keep"] * 4))
    swapped = engine_s(job(["swap"] * 3 + ["keep"], least_room(job(["swap"] * 3 + ["keep"]))), machine(1e6))
    assert in_memory <= swapped <= in_memory + 2 * 4 * start_s


def test_recomputing_takes_its_kernels_longer():
    """Kernels of both passes, and once more those that make what is dropped."""
    times, kept = StepTimes(machine().compute), engine_s(job(["keep"] * 4))
    one = job(["recompute"] * 3 + ["keep"])
    repeated = sum(times.step_s(one, ("recompute", block)) for block in range(3))
    assert engine_s(one) == pytest.approx(kept + repeated, rel=1e-6)


def test_swapping_everything_takes_its_copies():
    """With a slow link an iteration is the copies one way, then back, beside kernels of the first and last blocks."""
    decisions, slow = ["swap"] * 3 + ["keep"], machine(0.01)
    one = job(decisions, least_room(job(decisions)))
    times = StepTimes(slow.compute)
    copies = sum(times.step_s(one, (kind, block)) for kind in ("swap_out", "swap_in") for block in range(3))
    kernels = sum(times.step_s(one, (kind, block)) for kind in ("forward", "backward") for block in range(4))
    assert copies < engine_s(one, slow) < copies + kernels


@pytest.mark.parametrize("part", [0.6, 0.7])
def test_the_search_finds_the_fastest_of_all_plans(part):
    """Brute force: each of the 3 x 4 x 4 x 4 plans that fits, by its run; block 0 has no input to swap."""
    kept = job(["keep"] * 4)
    room = part * kept.schedule.peak_bytes
    every = [job(d, room) for d in product(DECISIONS[:3], *[DECISIONS] * 3)]
    fitting = [one for one in every if one.schedule.lacking_bytes <= 0.0]
    assert 0 < len(fitting) < len(every)
    search = BlockSearch([replace(kept, room_bytes=room)], StepTimes(machine().compute), PLENTY, OF_A_PLAN)
    search.run()
    best = min(map(engine_s, fitting))
    assert min(map(engine_s, search.fastest())) <= best * (1 + 1e-6)


def test_without_room_on_the_host_nothing_is_swapped():
    kept = job(["keep"] * 4)
    search = BlockSearch([replace(kept, room_bytes=0.5 * kept.schedule.peak_bytes)], StepTimes(machine().compute), 0.0)
    search.run()
    assert search.fastest()
    assert all(one.schedule.out_bytes == 0.0 for one in search.fastest())


def test_swapped_weights_are_copied_twice_and_updated_on_the_host():
    """The last block's weights stay between its passes; every gradient goes to the host, and is summed once."""
    settings = replace(SETTINGS, world_size=8, local_world_size=8, optimizer="adam")
    for strategy in ("horovod_nccl", "horovod_mpi"):
        one = job(["keep"] * 4, weights="swap", settings=replace(settings, strategy=strategy))
        program = out_of_core_graph(one).programs[0]
        weights = 4.0 * TOY.parameters
        assert CopiedBytes.of(one) == CopiedBytes(d2h=weights, h2d=2 * weights - one.sizes[-1].weights)
        calls = [work for work in program.work if isinstance(work, CollectiveCall)]
        assert sum(call.bytes for call in calls) == weights
        assert {call.on_host for call in calls} == {strategy == "horovod_mpi"}
        streams = [program.streams[number].name for number in program.stream_of]
        updates = [w for w, stream in zip(program.work, streams, strict=True) if stream == "updates"]
        assert all(isinstance(work, HostWork) for work in updates)
        assert sum(work.seconds for work in updates) == pytest.approx(host_update_s(weights, settings))
        held = memory_per_rank(TOY, one.settings, one)
        assert held.tiers["ddr"]["weights"][0] == held.tiers["ddr"]["gradients"][0] == weights
        assert held.tiers["ddr"]["optimizer state"][0] == 2 * weights
        assert held.tiers["hbm"]["gradients"][0] == held.tiers["hbm"]["optimizer state"][0] == 0.0


def test_data_parallel_plans_sum_every_gradient_once():
    settings = replace(SETTINGS, world_size=8, local_world_size=8)
    program = out_of_core_graph(job(["swap", "recompute", "keep", "keep"], settings=settings)).programs[0]
    assert sum(w.bytes for w in program.work if isinstance(w, CollectiveCall)) == 4.0 * TOY.parameters
