"""Convolutions: amounts, algorithms, generations of GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hardware_specs import load_cluster, load_gpu
from inputs.errors import InputError
from simulator.compute import CpuModel
from simulator.compute.convolution import (
    FRACTIONS,
    fractions_of,
    implicit_gemm,
    transformed_elements,
    winograd_gemm,
)
from simulator.compute.gpu import GpuModel
from simulator.lowering import build_machine
from simulator.operators import Convolution, Elementwise
from simulator.work import KernelSeries, touched_bytes
from tests.host_machines import host, kernels

LAYER = Convolution(32, (56, 56, 64), (28, 28, 128), (3, 3), 2, 1, "fp32")
SQUARE = Convolution(32, (56, 56, 64), (56, 56, 128), (3, 3), 1, 1, "fp32")


@pytest.fixture(scope="module")
def p100() -> GpuModel:
    return GpuModel(load_gpu("p100_pcie_16"), load_cluster("piz_daint").node, launch_s=5e-6)


def test_amounts() -> None:
    assert LAYER.flops == 2 * 32 * 28 * 28 * 128 * 3 * 3 * 64
    assert LAYER.elements == 32 * (56 * 56 * 64 + 28 * 28 * 128) + 3 * 3 * 64 * 128
    assert touched_bytes(LAYER) == 4 * LAYER.elements
    depthwise = Convolution(32, (56, 56, 64), (56, 56, 64), (3, 3), 1, 64, "fp32")
    assert depthwise.flops == 2 * 32 * 56 * 56 * 64 * 9
    assert depthwise.elements == 2 * 32 * 56 * 56 * 64 + 9 * 64


def test_the_three_passes_as_matrix_products() -> None:
    shapes = {}
    for direction in ("forward", "inputs", "weights"):
        gemm = implicit_gemm(replace(LAYER, direction=direction))
        shapes[direction] = (gemm.m, gemm.n, gemm.k)
    assert shapes == {
        "forward": (32 * 28 * 28, 128, 64 * 9),
        "inputs": (32 * 56 * 56, 64, 128 * 9 / 2),  # a quarter are no zeros, of which half are left out
        "weights": (128, 64 * 9, 32 * 28 * 28),
    }


def test_winograd_needs_fewer_products() -> None:
    """F(2 x 2, 3 x 3) needs 16 products for 4 places of 9 (2.25 times fewer), F(4 x 4, 3 x 3) 36 for 16 (4 times)."""
    plain = implicit_gemm(SQUARE)
    for tile, factor in ((2, 2.25), (4, 4.0)):
        gemm = winograd_gemm(SQUARE, tile)
        assert plain.m * plain.n * plain.k / (gemm.m * gemm.n * gemm.k * gemm.count) == pytest.approx(factor)
    assert transformed_elements(SQUARE) == 36 * (32 * 14 * 14 * (64 + 128) + 64 * 128)


def test_depthwise_convolutions_take_the_time_of_their_memory(p100: GpuModel) -> None:
    depthwise = Convolution(64, (112, 112, 64), (112, 112, 64), (3, 3), 1, 64, "fp32")
    size = 4.0 * 64 * 112 * 112 * 64
    assert p100.duration_s(depthwise) == pytest.approx(p100.duration_s(Elementwise(size, size)), rel=1e-3)


def test_a_faster_peak_shortens_large_windows_and_faster_memory_depthwise_ones(p100: GpuModel) -> None:
    large = Convolution(64, (28, 28, 512), (28, 28, 512), (7, 1), 1, 1, "fp32")
    thin = Convolution(64, (56, 56, 64), (56, 56, 64), (3, 3), 1, 64, "fp32")
    for layer, name in ((large, "GEMM"), (thin, "HBM")):
        other = "HBM" if name == "GEMM" else "GEMM"
        assert p100.improved({name: 2.0}).duration_s(layer) < 0.6 * p100.duration_s(layer) + 7e-6
        assert p100.improved({other: 2.0}).duration_s(layer) == p100.duration_s(layer)


def test_tensor_cores_have_fractions_of_their_own_and_other_generations_those_of_volta() -> None:
    assert fractions_of("volta", "fp16") == FRACTIONS["volta", True] != FRACTIONS["volta", False]
    assert fractions_of("hopper", "bf16") == FRACTIONS["volta", True]
    node = load_cluster("dgx_h100").node
    hopper = GpuModel(node.accelerator, node, launch_s=5e-6)
    assert "no convolution in fp16 was measured on h100_sxm5_80" in str(
        hopper.outside_range(replace(LAYER, precision="fp16"))
    )


def test_what_was_measured_has_no_warning(p100: GpuModel) -> None:
    assert p100.outside_range(LAYER) is None


def test_convolutions_on_cpus_are_refused() -> None:
    node = host(2, kernels()).node
    with pytest.raises(InputError, match="convolutions run on GPUs only"):
        CpuModel.of(node, 1).duration_s(LAYER)


def test_convolutions_on_sockets_by_hand() -> None:
    """A rank with 6 of 24 cores: 0.72 of its part of the peak, or bytes at a quarter of STREAM; depthwise: bytes."""
    model = build_machine(load_cluster("stampede2_skx"), 1, launch_s=0.0).compute
    wide = Convolution(16, (32, 32, 64), (32, 32, 64), (3, 3), 1, 1, "fp32")
    flops = 2 * 16 * 32 * 32 * 64 * 9 * 64
    assert model.duration_s(wide) == pytest.approx(5e-6 + flops / (3.07e12 / 4 * 0.72))
    narrow = Convolution(16, (32, 32, 16), (32, 32, 64), (1, 1), 1, 1, "fp32")
    moved = 4 * (16 * 32 * 32 * (16 + 64) + 16 * 64)
    assert model.duration_s(narrow) == pytest.approx(5e-6 + moved / 25e9)
    depthwise = Convolution(16, (32, 32, 64), (32, 32, 64), (3, 3), 1, 64, "fp32")
    assert model.duration_s(depthwise) == pytest.approx(5e-6 + 4 * (2 * 16 * 32 * 32 * 64 + 9 * 64) / 25e9)
    series = KernelSeries("Convolution", ((2, wide), (3, narrow)))
    assert model.duration_s(series) == pytest.approx(2 * model.duration_s(wide) + 3 * model.duration_s(narrow))
