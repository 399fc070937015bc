"""Kernel times against times worked out by hand on an A100-40: 1,300 GB/s embeddings (GEMMs: a file of their own)."""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from inputs.errors import InputError
from simulator.compute import COMPUTE_MODELS, GpuModel
from simulator.compute.gpu import UPDATE_OVER_LOOKUP
from simulator.operators import (
    Copy,
    DenseOptimizer,
    Elementwise,
    EmbeddingLookup,
    EmbeddingUpdate,
    Gemm,
    HostTraffic,
    HostWork,
    Interaction,
    Marker,
    Misses,
)

RATE = load_cluster("zionex").node.gpu.embedding_bytes_per_s


@pytest.fixture(scope="module")
def a100():
    node = load_cluster("zionex").node
    return GpuModel(node.gpu, node, launch_s=5e-6)


def test_lookups_and_updates_go_at_the_embedding_rate(a100):
    assert a100.duration_s(EmbeddingLookup(1e6, 1e9, 2e8, 1e8, 4)) == pytest.approx(1.3e9 / RATE)
    updating = RATE * UPDATE_OVER_LOOKUP
    update = EmbeddingUpdate(1e6, 5e5, 2e8, 8e8, 3e8, 0.0, 4)
    assert a100.duration_s(update) == pytest.approx(1.3e9 / updating)
    sorting = EmbeddingUpdate(1e6, 5e5, 2e8, 8e8, 3e8, 1e9, 4)
    assert a100.duration_s(sorting) == pytest.approx(1.3e9 / updating + 1e9 / a100.stream_bytes_per_s)
    padded = EmbeddingUpdate(1e6, 5e5, 2e8, 8e8, 3e8, 0.0, 4, padding_bytes=2e8)
    assert a100.duration_s(padded) == pytest.approx(1.5e9 / updating)
    tiny = EmbeddingUpdate(1, 1, 400, 800, 8, 24, 1)
    assert a100.duration_s(tiny) == pytest.approx(9 * a100.gpu.achieved.kernel_floor_s.value)


def test_rows_that_hit_the_l2_cost_only_its_rate(a100):
    """40 MB of L2 stand between the 20 and 60 MB of a curve: half of the rows between them come from memory."""
    curve = Misses(np.array([0.0, 20e6, 60e6]), np.array([1e9, 6e8, 2e8]))
    lookup = EmbeddingLookup(1e6, 1e9, 1e8, 1e8, 4, missed=curve)
    assert a100.duration_s(lookup) == pytest.approx((4e8 + 2e8) / RATE)
    held = EmbeddingLookup(1e6, 1e10, 1e8, 1e8, 4, missed=Misses(np.array([0.0, 1e6]), np.array([1e10, 1e6])))
    assert a100.duration_s(held) == pytest.approx(1.02e10 / 5430e9), "all of it passes through the L2"


def test_gradients_read_again_cost_only_what_misses_the_cache(a100):
    """A block inside the 40 MB L2 is free; of one four times as large, three quarters of the reads miss."""
    l2 = a100.gpu.l2_bytes.value
    once = a100.duration_s(EmbeddingUpdate(1, 1, 1e9, 0.0, 0.0, 0.0, 1))
    held = EmbeddingUpdate(1, 1, 1e9, 0.0, 0.0, 0.0, 1, repeated_gradient_bytes=8e9, gradient_block_bytes=l2)
    missed = EmbeddingUpdate(1, 1, 1e9, 0.0, 0.0, 0.0, 1, repeated_gradient_bytes=8e9, gradient_block_bytes=4 * l2)
    assert a100.duration_s(held) == pytest.approx(once)
    assert a100.duration_s(missed) == pytest.approx(once + 6e9 / (RATE * UPDATE_OVER_LOOKUP))


def test_streaming_kernels_go_at_the_stream_rate(a100):
    rate, start = a100.stream_bytes_per_s, a100.gpu.achieved.kernel_floor_s.value
    assert a100.duration_s(Elementwise(1e9, 5e8)) == pytest.approx(start + 1.5e9 / rate)
    assert a100.duration_s(DenseOptimizer(1e8, 2e9)) == pytest.approx(start + 2e9 / rate)
    assert a100.duration_s(Interaction(1e6, 1e9, 1e9, "tf32")) == pytest.approx(start + 2e9 / rate)
    assert a100.duration_s(Interaction(1e13, 1e6, 1e6, "tf32")) == pytest.approx(
        start + 1e13 / a100.flops_per_s("tf32")
    )
    assert a100.duration_s(Copy(1e9, "d2d")) == pytest.approx(start + 2e9 / rate), "read and written"


def test_copies_to_the_device_go_over_pcie(a100):
    node = a100.node
    rate, start = node.pcie_bytes_per_s.value * node.pcie_fraction.value, a100.gpu.achieved.kernel_floor_s.value
    assert a100.duration_s(Copy(1e9, "h2d")) == a100.duration_s(Copy(1e9, "d2h")) == pytest.approx(start + 1e9 / rate)


@pytest.mark.parametrize(
    ("size", "measured_us"), [(65536, 7), (106496, 11), (212992, 19), (4194304, 340), (6553600, 528)]
)
def test_copies_of_a_measured_iteration_are_within_10_per_cent(size, measured_us):
    """Pinned host memory to a V100: offsets, dense features and int32 indices of batches of 2048 of two DLRMs.

    owensgroup/ml_perf_model, kernels of 2021-05-04 (default model) and 2021-05-14 (MLPerf's).
    """
    node = load_cluster("dgx1_v100").node
    assert GpuModel(node.gpu, node, 5e-6).duration_s(Copy(size, "h2d")) == pytest.approx(1e-6 * measured_us, rel=0.1)


@pytest.mark.parametrize(("parameters", "tensors", "measured_us"), [(2_368_897, 16, 80), (2_499_137, 12, 72)])
def test_optimizer_of_a_measured_iteration(parameters, tensors, measured_us):
    """SGD on a V100, a kernel for each tensor: start and gradient read, weight read and written (same traces).

    The dense parameters of MLPerf's model and of the default one (512-512-64, 100-1024-1024-1024-1).
    """
    node = load_cluster("dgx1_v100").node
    model = GpuModel(node.gpu, node, 5e-6)
    seconds = tensors * model.duration_s(DenseOptimizer(parameters / tensors, 12 * parameters / tensors))
    assert seconds == pytest.approx(1e-6 * measured_us, rel=0.2)


def test_no_kernel_is_shorter_than_the_floor_and_no_work_is_no_kernel(a100):
    floor = a100.gpu.achieved.kernel_floor_s.value
    assert a100.duration_s(Elementwise(4.0, 4.0)) == pytest.approx(floor, rel=1e-4)
    assert a100.duration_s(Elementwise(0.0, 0.0)) == a100.duration_s(Gemm(0, 8, 8, "tf32")) == 0.0
    lookup = EmbeddingLookup(*(np.array([0.0, 1.0, 1e7]) * size for size in (1, 400, 100, 8, 1)))
    durations = a100.duration_s(lookup)
    assert durations.tolist()[:2] == [0.0, floor]
    assert durations[2] == pytest.approx(1e7 * 508 / RATE)


def test_host_work_is_launches_times_the_framework_launch(a100):
    assert a100.duration_s(HostWork(launches=3, seconds=2e-6)) == pytest.approx(17e-6)
    assert a100.duration_s(Marker()) == 0.0


@pytest.mark.parametrize(
    ("improved", "operator"),
    [
        ("GEMM", Gemm(4096, 4096, 4096, "tf32")),
        ("HBM", Elementwise(1e9, 1e9)),
        ("HBM", EmbeddingLookup(1e6, 1e9, 1e8, 1e8, 4)),
        ("PCIe/DDR", Copy(1e9, "h2d")),
        ("host", HostWork(launches=10)),
    ],
)
def test_improving_a_class_shortens_what_it_bounds_and_nothing_else(a100, improved, operator):
    before = a100.duration_s(operator)
    start = (
        a100.gpu.achieved.gemm_start_s.value if isinstance(operator, Gemm) else a100.gpu.achieved.kernel_floor_s.value
    )
    fixed = 0.0 if isinstance(operator, HostWork | EmbeddingLookup) else start
    faster = a100.improved({improved: 1.1}).duration_s(operator)
    assert faster - fixed == pytest.approx((before - fixed) / 1.1), "all but the start of a kernel"
    others = dict.fromkeys({"GEMM", "HBM", "PCIe/DDR", "SSD", "host"} - {improved}, 1.1)
    assert a100.improved(others).duration_s(operator) == before


def test_ssds_are_a_class_of_their_own():
    node = load_cluster("dgx_a100_80").node
    a100 = GpuModel(node.gpu, node, launch_s=5e-6)
    traffic = HostTraffic(read_bytes=1e9, write_bytes=0.0, ssd_read_bytes=1e9, ssd_write_bytes=0.0)
    alone_s = a100.ssd_s(traffic)
    assert alone_s > 0.0
    assert a100.improved({"SSD": 1.1}).ssd_s(traffic) == pytest.approx(alone_s / 1.1)
    assert a100.improved({"PCIe/DDR": 1.1}).ssd_s(traffic) == alone_s
    assert a100.improved({"SSD": 1.1}).pcie_s(traffic) == a100.pcie_s(traffic)


def test_a_precision_the_gpu_lacks_is_refused_and_tf32_falls_back_to_fp32():
    node = load_cluster("dgx1_v100").node
    v100 = GpuModel(node.gpu, node, 5e-6)
    with pytest.raises(InputError, match="fp8"):
        v100.duration_s(Gemm(4096, 4096, 4096, "fp8"))
    assert v100.duration_s(Gemm(4096, 4096, 4096, "tf32")) == v100.duration_s(Gemm(4096, 4096, 4096, "fp32"))
    assert "no tf32" in v100.outside_range(Gemm(4096, 4096, 4096, "tf32"))
    assert v100.outside_range(Gemm(4096, 4096, 4096, "fp32")) is None


def test_models_are_found_by_name():
    assert COMPUTE_MODELS.get("roofline") is GpuModel
    with pytest.raises(InputError, match="roofline"):
        COMPUTE_MODELS.get("rofline")
