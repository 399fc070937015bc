"""Kernels of CPU sockets against closed forms, and contention against the law of the indices."""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from simulator.compute import SocketModel
from simulator.lowering import build_machine
from simulator.operators import DenseOptimizer, Elementwise, EmbeddingLookup, EmbeddingUpdate, Gemm, HostWork
from workloads.dlrm.laws.popularity import uniform, zipf

CLUSTER = load_cluster("xeon_8280_opa")
RATES = CLUSTER.node.cpu.rates
START_S = RATES.kernel_start_s.value
STREAM = RATES.memory_bytes_per_s.value
CORES, WORKERS = 28, 4


def model(ranks: int = 2) -> SocketModel:
    compute = build_machine(CLUSTER, ranks, launch_s=10e-6).compute
    assert isinstance(compute, SocketModel)
    return compute


def update(variant: str, collisions: float = 0.0) -> EmbeddingUpdate:
    """1,000 lookups of 250 rows of 128 fp32 numbers, 40 pooled gradients."""
    row = 128 * 4.0
    return EmbeddingUpdate(
        lookups=1000.0,
        unique_rows=250.0,
        gradient_bytes=40 * row,
        weight_bytes=2 * 250 * row,
        state_bytes=0.0,
        sort_bytes=0.0,
        tables=1.0,
        repeated_gradient_bytes=960 * row,
        variant=variant,
        collisions=collisions,
    )


def test_a_gemm_takes_its_arithmetic_on_the_cores_that_compute() -> None:
    gemm = Gemm(m=4096, n=4096, k=4096, precision="fp32")
    peak = RATES.peak_flops["fp32"].value * RATES.gemm_fraction.value
    assert model().duration_s(gemm) == pytest.approx(START_S + 2 * 4096**3 / (peak * (CORES - WORKERS) / CORES))
    assert model(1).duration_s(gemm) == pytest.approx(START_S + 2 * 4096**3 / peak)  # alone: nobody to exchange with


def test_a_thin_gemm_takes_its_bytes() -> None:
    gemm = Gemm(m=2048, n=1, k=1024, precision="fp32")
    assert model().duration_s(gemm) == pytest.approx(START_S + 4 * (2048 * 1024 + 1024 + 2048) / STREAM)


def test_an_update_writes_and_reads_a_gradient_for_each_lookup() -> None:
    row = 128 * 4
    traffic = 40 * row + 2 * 1000 * row + 2 * 250 * row
    assert model().duration_s(update("race_free")) == pytest.approx(START_S + traffic / STREAM)


def test_a_reference_update_takes_a_time_for_each_lookup() -> None:
    assert model().duration_s(update("reference")) == pytest.approx(START_S + 1000 * RATES.serial_row_s.value)


@pytest.mark.parametrize("variant", ["race_free", "atomic", "reference"])
def test_an_update_of_rows_is_no_work_of_the_host(variant: str) -> None:
    faster = model().improved({"host": 2.0})
    assert faster.duration_s(update(variant)) == model().duration_s(update(variant))


@pytest.mark.parametrize(("collisions", "factor"), [(0.0, 1.0), (1 / 23, 2.0), (1.0, 24.0)])
def test_atomic_updates_wait_at_shared_rows(collisions: float, factor: float) -> None:
    """1 + (T - 1) c with 24 computing cores: as race-free without shared rows, one core's pace at a single row."""
    free_s, atomic_s = (model().duration_s(update(kind, collisions)) for kind in ("race_free", "atomic"))
    assert atomic_s - START_S == pytest.approx(factor * (free_s - START_S))


def test_collisions_are_the_sum_of_squared_shares() -> None:
    assert uniform(1000).collision == pytest.approx(1 / 1000)
    edges = np.arange(1, 1002, dtype=float) ** -0.2
    p = -np.diff(edges) / (edges[0] - edges[-1])  # Zipf's law of 1.2, its sum replaced by the integral
    assert zipf(1000, 1.2).collision == pytest.approx(float(p @ p), rel=0.01)
    assert zipf(1000, 1.2).collision > zipf(1000, 0.8).collision > uniform(1000).collision


def test_skewed_indices_slow_atomic_updates_ten_times() -> None:
    """The published factor is up to ten: 24 cores reach it at c = 9 / 23, a law with most lookups on one row."""
    steep = zipf(1000, 2.0).collision
    slowdown = model().contention(update("atomic", steep))
    assert 5.0 < slowdown < 24.0
    assert model().contention(update("atomic", uniform(1000).collision)) < 1.03


def test_streams_and_the_host() -> None:
    lookup = EmbeddingLookup(lookups=10.0, row_bytes=5120.0, output_bytes=1024.0, index_bytes=80.0, tables=1.0)
    assert model().duration_s(lookup) == pytest.approx(START_S + (5120 + 1024 + 80) / STREAM)
    assert model().duration_s(Elementwise(1e6, 2e6)) == pytest.approx(START_S + 3e6 / STREAM)
    assert model().duration_s(DenseOptimizer(1e6, 12e6)) == pytest.approx(START_S + 12e6 / STREAM)
    assert model().duration_s(HostWork(launches=3.0, seconds=1e-3)) == pytest.approx(1e-3 + 3 * 10e-6)
    assert model().duration_s(Elementwise(0.0, 0.0)) == 0.0


def test_faster_parts_and_no_starts() -> None:
    stream, gemm = Elementwise(1e6, 2e6), Gemm(m=4096, n=4096, k=4096, precision="fp32")
    assert model().without_starts().duration_s(stream) == pytest.approx(3e6 / STREAM)
    faster = model().improved({"GEMM": 1.1, "HBM": 2.0})
    assert faster.duration_s(stream) - START_S == pytest.approx(3e6 / STREAM / 2)
    assert (model().duration_s(gemm) - START_S) / (faster.duration_s(gemm) - START_S) == pytest.approx(1.1)
