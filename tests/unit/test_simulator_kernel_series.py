"""Series of kernels and repeated calls take as long as their parts one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hardware_specs import load_cluster
from inputs.errors import ProgramError
from scenarios.machine import machine_of
from scenarios.resolve import load_scenario
from simulator.collective_calls import CollectiveCall
from simulator.compute.gpu import GpuModel
from simulator.lowered import PS_PER_S
from simulator.lowering import lower
from simulator.operators import Attention, Elementwise, Gemm
from simulator.program import ProgramBuilder, TaskGraph
from simulator.work import KernelSeries, operator_name

NODE = load_cluster("dgx_h100").node
GPU = GpuModel(NODE.accelerator, NODE, launch_s=0.0)
GEMM = Gemm(4096, 4096, 4096, "bf16")
MOVE = Elementwise(1e8, 1e8)


def test_a_series_takes_as_long_as_its_kernels():
    series, alone = KernelSeries("Gemm", ((3, GEMM), (2, MOVE))), at_clock(1.0)
    assert alone.duration_s(series) == pytest.approx(3 * alone.duration_s(GEMM) + 2 * alone.duration_s(MOVE))
    assert series.launches == 5
    assert operator_name(series) == "Gemm"


def at_clock(fraction: float) -> GpuModel:
    """The GPU with another rate of its tensor cores in training."""
    rates = GPU.gpu.achieved
    known = rates.gemm_fraction.model_copy(update={"value": fraction})
    achieved = rates.model_copy(update={"sustained_fraction": known})
    return replace(GPU, gpu=GPU.gpu.model_copy(update={"achieved": achieved}))


def test_the_clock_of_training_slows_arithmetic_of_series_alone():
    """Products of a series take longer, kernels that move bytes and kernels that are timed alone do not."""
    slow, products, moves = at_clock(0.5), KernelSeries("Gemm", ((1, GEMM),)), KernelSeries("Elementwise", ((1, MOVE),))
    start_s = GPU.gpu.achieved.gemm_start_s.value
    assert slow.duration_s(products) == pytest.approx(2 * GPU.duration_s(GEMM) - start_s)
    assert slow.duration_s(moves) == GPU.duration_s(MOVE)
    assert slow.duration_s(GEMM) == GPU.duration_s(GEMM)


@pytest.mark.parametrize(("tokens", "tflops"), [(1024, 350), (4096, 368), (16384, 370)])
def test_attention_reaches_the_published_rate_on_h100(tokens, tflops):
    """Forward pass without a mask, heads of 128, 16,384 tokens, width 2,048 (arXiv:2407.08608)."""
    flops = 4.0 * 16384 * tokens * 2048
    attention = Attention(flops, 4 * 2.0 * 16384 * 2048, 128, tokens, "bf16")
    assert flops / GPU.duration_s(attention) / 1e12 == pytest.approx(tflops, rel=0.08)


def graph(*calls: CollectiveCall) -> TaskGraph:
    builder = ProgramBuilder("all", np.arange(16), ["comm"])
    for number, call in enumerate(calls):
        builder.task(f"call_{number}", "comm", call)
    return TaskGraph((builder.build(),), {"world": np.zeros(16, dtype=np.int64)})


def test_repeated_calls_take_as_long_as_each_after_the_other():
    machine = machine_of(load_scenario("zionex_a_dgx_h100_128", ["nodes=2"]))
    once, thrice = (CollectiveCall("all_gather", "world", 1e7, repeats=repeats) for repeats in (1, 3))
    single, repeated = (lower(graph(call), machine) for call in (once, thrice))
    assert repeated.collectives[0].alone_s == pytest.approx(3 * single.collectives[0].alone_s)
    assert repeated.collectives[0].bytes == 3e7
    (one,), (three,) = single.program.activities, repeated.program.activities
    for of_one, of_three in zip(one.phases, three.phases, strict=True):
        assert (of_three.latency_ps, of_three.work_ps) == (3 * of_one.latency_ps, 3 * of_one.work_ps)
    assert sum(phase.latency_ps + phase.work_ps for phase in three.phases) > 1e-5 * PS_PER_S


def test_members_agree_on_repeats():
    builders = [ProgramBuilder(f"p{rank}", np.array([rank]), ["comm"]) for rank in range(2)]
    for rank, builder in enumerate(builders):
        builder.task("call", "comm", CollectiveCall("all_gather", "world", 1e7, repeats=1 + rank))
    wrong = TaskGraph(tuple(b.build() for b in builders), {"world": np.zeros(2, dtype=np.int64)})
    with pytest.raises(ProgramError, match="call 0 differs"):
        wrong.check()
