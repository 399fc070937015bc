"""Fits of a CPU's costs: planted ones come back, odd rows do not bend them, noise is told."""

import numpy as np
import pytest

from simulator.compute.cpu import Caches, amounts_of
from simulator.operators import EmbeddingLookup, Gemm
from validation.cpu_fit import KernelRow, fit_costs, nonnegative

CACHES = Caches(2.0**20, 2.0**25)


def gemms(count, seed=0):
    random = np.random.default_rng(seed)
    return [Gemm(*random.integers(16, 1024, 3).tolist(), "fp32") for _ in range(count)]


def timed(operator, costs, *, factor=1.0):
    counted = amounts_of(operator, CACHES)
    seconds = factor * sum(float(counted[name]) * cost for name, cost in costs.items())
    return KernelRow(operator, (seconds, seconds, seconds))


def test_planted_costs_come_back():
    costs = {"call": 5e-6, "flop": 1e-11, "left": 2e-10, "result": 1e-10}
    found = fit_costs([timed(work, costs) for work in gemms(40)], CACHES)["gemm"]
    assert found.worst_error_pct == pytest.approx(0.0, abs=0.1)
    assert found.seconds_per["flop"] == pytest.approx(1e-11, rel=0.02)
    assert found.rows == 40


def test_a_few_disturbed_rows_do_not_bend_the_rest():
    costs = {"call": 5e-6, "flop": 1e-11}
    rows = [timed(work, costs, factor=5.0 if i % 10 == 0 else 1.0) for i, work in enumerate(gemms(40))]
    found = fit_costs(rows, CACHES)["gemm"]
    assert found.median_error_pct < 2.0
    assert found.worst_error_pct == pytest.approx(-80.0, abs=3.0)


def test_costs_are_never_negative():
    random = np.random.default_rng(1)
    matrix, seconds = random.uniform(0, 1, (30, 4)), random.uniform(0.1, 1, 30)
    assert nonnegative(matrix, seconds).min() >= 0.0


def test_kinds_are_fitted_apart():
    lookup = EmbeddingLookup(100.0, 6400.0, 640.0, 800.0, 1.0, resident_bytes=1e6)
    rows = [timed(work, {"flop": 1e-11}) for work in gemms(5)] + [timed(lookup, {"lookup": 1e-8})]
    assert set(fit_costs(rows, CACHES)) == {"gemm", "lookup"}


def test_noise_is_half_the_spread_of_the_middle_half():
    row = KernelRow(gemms(1)[0], (1.0, 1.1, 1.2, 1.3, 9.0))
    assert row.seconds == 1.2
    assert row.noise == pytest.approx(0.1 / 1.2)
