"""Attention over samples of several lengths: each at its own rate, alike on one rank and on many, and in the engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.oracle import compare
from benchmarks.random_programs import RandomProgram
from hardware_specs import load_cluster
from scenarios.engine_run import iteration_s
from simulator.analysis import least_iteration_s
from simulator.compute.attention import RATES
from simulator.compute.gpu import GpuModel
from simulator.equality import same
from simulator.lowering import lower
from simulator.operators import Attention, Gemm
from tests.sequence_jobs import model_data, placed, works
from workloads.dlrm.model.sequence_batches import Batching

DRAW = np.random.Generator(np.random.PCG64(11))
LENGTHS = {
    "alike": np.full(8, 512.0),
    "uniform": DRAW.integers(1, 4096, 100).astype(float),
    "long tail": np.minimum(DRAW.geometric(1 / 300, 200), 4096).astype(float),
    "one long": np.array([1.0] * 50 + [4096.0]),
    "single": np.array([777.0]),
}
WIDTH, HEADS = 128, 4


def gpu(name: str = "dgx_h100") -> GpuModel:
    node = load_cluster(name).node
    return GpuModel(node.accelerator, node, 0.0).without_starts()


def kernel(lengths: np.ndarray, **changes: object) -> Attention:
    """A kernel over samples of several lengths, so small in bytes that arithmetic bounds it."""
    squares, positions = float((lengths**2).sum()), float(lengths.sum())
    operator = Attention(
        flops=2.0 * HEADS * WIDTH * squares,
        bytes=1.0,
        head_dim=WIDTH,
        sequence=squares / positions,
        precision="bf16",
        causal=True,
        kernel="flash3",
        pointwise=True,
    )
    return replace(operator, **changes)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_each_sample_has_the_rate_of_its_own_length(lengths: str, backward: bool):
    """Sum over samples of flops over peak x r s / (s + h), by hand, against one kernel over all of them."""
    model, samples = gpu(), LENGTHS[lengths]
    forward, whole, back = (RATES["flash3", WIDTH, *key] for key in ((True, False), (False, False), (False, True)))
    r, h = forward.fraction, forward.half_tokens
    if backward:  # a masked backward pass loses to the mask what the forward pass loses to it
        r, h = back.fraction * r / whole.fraction, back.half_tokens + h - whole.half_tokens
    peak = model.gpu.peak_flops_per_s("bf16")
    by_hand = sum(2.0 * HEADS * WIDTH * s**2 * (s + h) / (peak * r * s) for s in samples.tolist())
    assert float(model.duration_s(kernel(samples, backward=backward))) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_one_kernel_over_samples_takes_the_time_of_a_kernel_for_each(lengths: str):
    model, samples = gpu(), LENGTHS[lengths]
    apart = sum(float(model.duration_s(kernel(np.array([s])))) for s in samples.tolist())
    assert float(model.duration_s(kernel(samples))) == pytest.approx(apart, rel=1e-12)


def test_memory_bounds_a_kernel_that_moves_much():
    model = gpu()
    moved = kernel(LENGTHS["alike"], bytes=1e12)
    assert float(model.duration_s(moved)) == pytest.approx(1e12 / model.stream_bytes_per_s, rel=1e-12)


def test_ranks_at_once_take_the_times_of_each_alone():
    """Amounts of several ranks in one operator, a rank without positions among them, which takes no time."""
    model, each = gpu(), list(LENGTHS.values())
    operators = [kernel(samples) for samples in each]
    together = replace(
        operators[0],
        flops=np.array([*(one.flops for one in operators), 0.0]),
        sequence=np.array([*(one.sequence for one in operators), 1.0]),
        bytes=np.array([*(one.bytes for one in operators), 0.0]),
    )
    alone = [float(model.duration_s(one)) for one in operators]
    assert np.asarray(model.duration_s(together)).tolist() == [*alone, 0.0]


@pytest.mark.parametrize("recompute", [False, True])
def test_a_graph_with_equal_ranks_takes_the_time_of_the_same_lengths_drawn(recompute: bool):
    """Amounts that are single numbers (fixed lengths), and the same ones rank by rank (drawn from one length)."""
    fixed, drawn = (
        placed(model_data(lengths, max_length=512, recompute=recompute), 4, sharding={"planner": "row_wise"})
        for lengths in ({"distribution": "fixed"}, {"distribution": "uniform", "low": 512, "high": 512})
    )
    one, other = (iteration_s(job.resolved, workload, job.machine) for job, workload in (fixed, drawn))
    assert other == pytest.approx(one, rel=1e-9)


def lowered(batching: Batching, mode: str, ranks: int = 4):
    model = model_data({"distribution": "lognormal", "mean": 300.0, "deviation": 1.5}, max_length=2048)
    sharding = {"index_dedup": True} if batching == "sorted" else {}
    job, workload = placed(model, ranks, batching=batching, mode=mode, sharding=sharding, global_batch_size=ranks * 512)
    return job, workload, lower(workload.graph(), job.machine).program


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("batching", ["random", "sorted", "balanced"])
def test_engine_equals_oracle(batching: Batching, mode: str):
    """To the picosecond, over three iterations of a job whose ranks have different lengths."""
    assert compare(RandomProgram(lowered(batching, mode)[2], 3)) == ""


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_no_run_ends_before_its_bound(mode: str):
    job, workload, program = lowered("random", mode)
    least_s, taken_s = least_iteration_s(program), iteration_s(job.resolved, workload, job.machine)
    assert 0.3 * taken_s < least_s <= taken_s * (1 + 1e-6)


@pytest.mark.parametrize("recompute", [False, True])
def test_attention_lasts_as_long_with_fp8_layers_as_with_bf16(recompute: bool):
    """fp8 is for products of linear layers, whose kernels differ; HSTU's attention has 16-bit kernels."""
    lengths = {"distribution": "geometric", "mean": 300.0}
    found = []
    for dense in ("bf16", "fp8"):
        model = model_data(lengths, max_length=2048, recompute=recompute)
        job, workload = placed(model, 4, precision={"dense": dense}, sharding={"planner": "row_wise"})
        found.append((job.machine.compute, works(workload.graph().programs[0])))
    (compute, wide), (_, narrow) = found
    attention = [name for name, work in wide.items() if isinstance(work, Attention)]
    assert len(attention) == 4
    for name in attention:
        assert same(wide[name], narrow[name]), name
        assert np.array_equal(compute.duration_s(wide[name]), compute.duration_s(narrow[name])), name
    layers = [name for name, work in wide.items() if isinstance(work, Gemm) and "uvqk" in name]
    assert {narrow[name].precision for name in layers} == {"fp8"}
