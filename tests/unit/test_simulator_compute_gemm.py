"""GEMM times by shape against tiles and waves counted by hand, and properties any shape has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_specs import load_cluster, load_gpu
from simulator.compute import GpuModel
from simulator.compute.gemm import GemmRates, gemm_s
from simulator.operators import Gemm

PLAIN = GemmRates(
    peak_flops_per_s=100e12, fraction=1.0, balanced_tile=1e-3, memory_bytes_per_s=1e15, start_s=5e-6,
    vector_start_s=2e-6, unaligned=0.5, sms=100, element_bytes=2, aligned_elements=8,
)  # fmt: skip
"""1 TFLOP/s per SM; operands and memory do not matter."""

SIZES = st.integers(1, 4096)


def test_one_wave_takes_one_tile():
    """100 tiles of 128 x 128 on 100 SMs: 2 x 128 x 128 x 1024 operations at 1 TFLOP/s."""
    assert gemm_s(Gemm(1280, 1280, 1024, "bf16"), PLAIN) == pytest.approx(5e-6 + 2 * 128 * 128 * 1024 / 1e12)


def test_a_tile_more_than_a_wave_takes_another_wave_of_smaller_tiles():
    """1288 columns: 110 tiles of 128 x 128 would be two waves; the best of all tiles is taken."""
    full = gemm_s(Gemm(1280, 1280, 1024, "bf16"), PLAIN) - PLAIN.start_s
    more = gemm_s(Gemm(1280, 1288, 1024, "bf16"), PLAIN) - PLAIN.start_s
    assert 1.05 * full < more <= 2 * full


def test_long_sums_are_split_over_idle_multiprocessors():
    """One tile of 32 x 32: 64 parts of 512 on 64 SMs, and a second kernel, instead of all 32,768 steps on one."""
    alone = 2 * 32 * 32 * 32768 / 1e12
    expected = 5e-6 + alone / 64 + 5e-6 + 4 * 32 * 32 * 65 / 1e15
    assert gemm_s(Gemm(32, 32, 32768, "bf16"), PLAIN) == pytest.approx(expected)
    assert gemm_s(Gemm(32, 32, 64, "bf16"), PLAIN) == pytest.approx(5e-6 + alone / 512), "too short to be split"


def test_operands_may_take_longer_than_arithmetic():
    """Tiles of 256 x 128 at a balanced edge of 512: (256 + 128) x 512 operations' time a step, 3 x their own."""
    slow = replace(PLAIN, balanced_tile=512.0)
    assert gemm_s(Gemm(1280, 2560, 1024, "bf16"), slow) == pytest.approx(5e-6 + (128 + 256) * 512 * 1024 / 1e12)
    half = replace(PLAIN, fraction=0.5)
    assert gemm_s(Gemm(1280, 1280, 1024, "bf16"), half) == pytest.approx(5e-6 + 2 * 128 * 128 * 1024 / 0.5e12)


def test_a_skinny_product_takes_its_memory_traffic():
    slow = replace(PLAIN, memory_bytes_per_s=1e12)
    assert gemm_s(Gemm(8, 4096, 4096, "bf16"), slow) == pytest.approx(
        5e-6 + 2 * (8 * 4096 + 4096 * 4096 + 8 * 4096) / 1e12
    )


def test_products_with_vectors_are_streamed():
    """One row, one column, one step (an outer product): start of a streaming kernel, no tiles, no alignment."""
    slow = replace(PLAIN, memory_bytes_per_s=1e12)
    for m, n, k in ((1, 1001, 77), (1001, 1, 77), (1001, 77, 1)):
        expected = 2e-6 + 2 * (m * k + k * n + m * n) / 1e12
        assert gemm_s(Gemm(m, n, k, "bf16"), slow) == pytest.approx(expected)


def test_unaligned_rows_are_loaded_element_by_element():
    """Rows of 1281 bf16 are 2562 bytes; of a first factor stored [k, m] the rows are m long."""
    aligned = gemm_s(Gemm(1280, 1280, 1024, "bf16"), PLAIN) - PLAIN.start_s
    stored = gemm_s(Gemm(1281, 1280, 1024, "bf16"), PLAIN)
    assert gemm_s(Gemm(1280, 1280, 1023, "bf16"), PLAIN) - PLAIN.start_s == pytest.approx(2 * aligned, rel=1e-2)
    assert gemm_s(Gemm(1281, 1280, 1024, "bf16", transposed=True), PLAIN) > 1.4 * stored
    assert gemm_s(Gemm(1280, 1280, 1023, "bf16", transposed=True), PLAIN) < PLAIN.start_s + aligned


@pytest.mark.parametrize(("precision", "aligned"), [("tf32", 4), ("fp16", 8), ("bf16", 8), ("fp8", 16), ("fp32", 1)])
def test_alignment_is_16_bytes_on_tensor_cores(precision, aligned):
    node = load_cluster("dgx_h100").node
    rates = GpuModel(node.gpu, node, 5e-6).gemm_rates(precision)
    assert rates.aligned_elements == aligned
    assert rates.peak_flops_per_s == node.gpu.peak_flops[precision].value


def test_fp8_is_up_to_twice_as_fast_as_bf16():
    node = load_cluster("dgx_h100").node
    model = GpuModel(node.gpu, node, 5e-6)
    bf16, fp8 = (model.duration_s(Gemm(8192, 8192, 8192, p)) for p in ("bf16", "fp8"))
    assert 1.7 < bf16 / fp8 <= 2.0
    bf16, fp8 = (model.duration_s(Gemm(128, 128, 128, p)) for p in ("bf16", "fp8"))
    assert bf16 / fp8 < 1.2, "mostly the start of a kernel"
    unmeasured = replace(model, gpu=load_gpu("h100_pcie_80"))
    assert "fp8" in unmeasured.outside_range(Gemm(8, 8, 8, "fp8"))
    assert model.outside_range(Gemm(8, 8, 8, "fp8")) is None, "one rate is known"
    assert model.outside_range(Gemm(8, 8, 8, "bf16")) is None, "small ones are modelled"


def test_ranks_have_their_own_shapes():
    node = load_cluster("zionex").node
    model = GpuModel(node.gpu, node, 5e-6)
    batches = np.tile([0.0, 64.0, 512.0, 520.0], 1024)
    times = model.duration_s(Gemm(batches, 4000, 4000, "tf32"))
    assert times.shape == (4096,)
    assert times[:4].tolist() == [model.duration_s(Gemm(m, 4000, 4000, "tf32")) for m in (0, 64, 512, 520)]
    assert times[0] == 0.0


@given(m=SIZES, n=SIZES, k=SIZES, count=st.integers(1, 64))
@settings(max_examples=150, deadline=None)
def test_no_product_is_faster_than_the_peak_or_the_memory(m, n, k, count):
    node = load_cluster("zionex").node
    model = GpuModel(node.gpu, node, 5e-6)
    seconds = model.duration_s(Gemm(m, n, k, "tf32", count))
    assert seconds >= 2 * m * n * k * count / model.gpu.peak_flops_per_s("tf32")
    assert seconds >= 4 * count * (m * k + k * n + m * n) / model.gpu.memory_bytes_per_s.value
    assert model.duration_s(Gemm(m, n, k, "tf32", 2 * count)) >= seconds
    assert model.improved({"GEMM": 1.1}).duration_s(Gemm(m, n, k, "tf32", count)) <= seconds


FEW_SIZES = st.sampled_from([0, 1, 2, 7, 8, 31, 32, 33, 64, 127, 128, 129, 1000, 4096, 8200])
SHAPES = st.lists(st.tuples(FEW_SIZES | SIZES, FEW_SIZES, FEW_SIZES, st.sampled_from([0, 1, 3, 200])), min_size=1)
RATES = {"plain": PLAIN, "slow memory": replace(PLAIN, memory_bytes_per_s=1e12, balanced_tile=200.0, sms=7)}


@given(SHAPES, st.booleans(), st.sampled_from(sorted(RATES)), st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_many_shapes_at_once_take_the_times_of_each_alone(shapes, transposed, name, more):
    """To the last bit, zeros and ones included, whether shapes of ranks are few or many, and where ranks are alike."""
    shapes = [*shapes, *((1000 + 8 * n, 64 + n, 128, 1) for n in range(more)), shapes[0]]
    rates = RATES[name]
    alone = [gemm_s(Gemm(m, n, k, "bf16", count, transposed), rates) for m, n, k, count in shapes]
    m, n, k, count = (np.array(column, dtype=np.float64) for column in zip(*shapes, strict=True))
    together = gemm_s(Gemm(m, n, k, "bf16", count, transposed), rates)
    assert together.tolist() == alone
    for (rows, columns, steps, products), time_s in zip(shapes, alone, strict=True):
        assert (time_s == 0.0) == (0 in (rows, columns, steps, products))


@given(st.lists(FEW_SIZES | SIZES, min_size=1, max_size=40), FEW_SIZES, FEW_SIZES)
@settings(max_examples=40, deadline=None)
def test_ranks_with_positions_of_their_own_take_the_times_of_each_alone(positions, n, k):
    """Rows differ from rank to rank, the layer does not."""
    together = gemm_s(Gemm(np.array(positions, dtype=np.float64), n, k, "bf16"), PLAIN)
    assert together.tolist() == [gemm_s(Gemm(m, n, k, "bf16"), PLAIN) for m in positions]
