"""Fits of a CPU's costs: planted ones come back, odd rows do not bend them, noise does not pull them down."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.compute.cpu_amounts import Caches, amounts_of, class_of
from simulator.operators import Gemm, HostWork
from validation.fits.nonnegative import nonnegative
from validation.host.iteration_parts import PartRow, alone
from validation.host.kernel_costs import fit
from validation.host.timed_kernels import KernelRow

CACHES = Caches(2.0**20, 2.0**25)


def gemms(count, seed=0):
    random = np.random.default_rng(seed)
    return [Gemm(*random.integers(64, 1024, 3).tolist(), "fp32") for _ in range(count)]


def part(costs, *works, factor=1.0):
    """A part of an iteration in which these works take what the costs say, times a factor; issuing is timed apart."""
    counted = [(class_of(work), amounts_of(work, CACHES)) for work in works]
    seconds = sum(
        float(count) * costs.get((kind, name), 0.0)
        for kind, counts in counted
        for name, count in counts.items()
        if name != "issue"
    )
    return PartRow("part", works, factor * seconds, 1e-9)


def test_planted_costs_come_back_from_parts_of_one_kind():
    costs = {("gemm", "call"): 5e-6, ("gemm", "flop"): 1e-11, ("gemm", "left"): 2e-10}
    found = fit([part(costs, work) for work in gemms(60)], CACHES)["gemm"]
    assert found.worst_error_pct == pytest.approx(0.0, abs=0.5)
    assert found.seconds_per["flop"] == pytest.approx(1e-11, rel=0.02)
    assert found.rows == 60


def test_costs_of_two_kinds_come_back_from_their_sums():
    costs = {("gemm", "flop"): 1e-11, ("host", "launch"): 2e-5, ("host", "collective"): 3e-4}
    hosts = [HostWork(float(1 + i % 5), collectives=float(i % 3)) for i in range(40)]
    found = fit([part(costs, work, host) for work, host in zip(gemms(40), hosts, strict=True)], CACHES)
    assert found["gemm"].seconds_per["flop"] == pytest.approx(1e-11, rel=0.02)
    assert found["host"].seconds_per["collective"] == pytest.approx(3e-4, rel=0.05)


def test_a_few_disturbed_rows_do_not_bend_the_rest():
    costs = {("gemm", "flop"): 1e-11}
    rows = [part(costs, work, factor=5.0 if i % 10 == 0 else 1.0) for i, work in enumerate(gemms(40))]
    found = fit(rows, CACHES)["gemm"]
    assert found.median_error_pct < 6.0
    assert found.worst_error_pct == pytest.approx(-80.0, abs=3.0)


def test_noise_that_multiplies_leaves_the_mean_where_it_is():
    """Errors relative to what was measured would pull the cost down by the noise's variance, here 8 %."""
    factors = np.random.default_rng(2).uniform(0.5, 1.5, 400)
    rows = [
        part({("gemm", "flop"): 1e-11}, work, factor=factor) for work, factor in zip(gemms(400), factors, strict=True)
    ]
    costs = fit(rows, CACHES)["gemm"].seconds_per
    predicted = sum(costs.get(name, 0.0) * count for row in rows for (_, name), count in row.counts(CACHES).items())
    assert predicted == pytest.approx(sum(row.seconds for row in rows), rel=0.04)


def test_costs_are_never_negative():
    """Least squares over the same rows makes some negative."""
    random = np.random.default_rng(1)
    rows = [replace(part({}, work), seconds=float(random.uniform(1e-5, 1e-2))) for work in gemms(30)]
    counted = [row.counts(CACHES) for row in rows]
    keys = sorted({key for counts in counted for key in counts})
    matrix = np.array([[counts.get(key, 0.0) for key in keys] for counts in counted])
    seconds, floors = (np.array([getattr(row, name) for row in rows]) for name in ("seconds", "floor_s"))
    assert np.linalg.lstsq(matrix, seconds, rcond=None)[0].min() < 0.0
    assert nonnegative(matrix, seconds, floors, np.ones(len(rows))).min() >= 0.0


def test_a_kernel_alone_counts_as_its_operator_does():
    row = KernelRow(gemms(1)[0], (1.0, 1.1, 1.2, 1.3, 9.0))
    found = alone(row, 2)
    assert found.seconds == 1.2
    assert found.noise == pytest.approx(0.1 / 1.2)
    assert found.counts(CACHES)["gemm", "flop"] == 2.0 * row.operator.m * row.operator.n * row.operator.k


def test_a_call_costs_what_it_costs_within_an_iteration():
    """Alone it costs a tenth; where no iteration has such a kernel that is all that is known."""
    within = {("gemm", "call"): 1e-4, ("gemm", "flop"): 1e-11}
    alone_costs = {("gemm", "call"): 1e-5, ("gemm", "flop"): 1e-11}
    in_jobs = [part(within, work) for work in gemms(30)]
    by_themselves = [replace(part(alone_costs, work), alone=True) for work in gemms(30, seed=1)]
    both = fit([*in_jobs, *by_themselves], CACHES)["gemm"].seconds_per
    assert both["call"] == pytest.approx(1e-4, rel=0.02)
    assert both["flop"] == pytest.approx(1e-11, rel=0.02)
    assert set(both) <= set(amounts_of(gemms(1)[0], CACHES).names())
    assert fit(by_themselves, CACHES)["gemm"].seconds_per["call"] == pytest.approx(1e-5, rel=0.02)


USUAL = {"gemm": {"flop": 5e-12, "left": 1e-10, "right": 1e-10, "result": 2e-10}}


TRUTH = {("gemm", "flop"): 1e-11, ("gemm", "left"): 2e-10, ("gemm", "right"): 2e-10, ("gemm", "result"): 4e-10}


def noisy(count, seed):
    factors = np.random.default_rng(seed).uniform(0.7, 1.3, count)
    return [part(TRUTH, work, factor=factor) for work, factor in zip(gemms(count, seed), factors, strict=True)]


def missed(costs, rows):
    """Mean error of what the truth says these rows take."""
    expected = [sum(costs.get(name, 0.0) * count for (_, name), count in row.counts(CACHES).items()) for row in rows]
    return np.mean([abs(of_row / row.seconds - 1.0) for of_row, row in zip(expected, rows, strict=True)])


def test_few_noisy_rows_lean_on_costs_of_another_cpu():
    """That one is twice as fast in everything. No row is as flat or as long as these products."""
    shapes = [(2000, 64, 64), (64, 2000, 64), (64, 64, 2000), (3000, 512, 32)]
    others = [part(TRUTH, Gemm(*shape, "fp32")) for shape in shapes]
    off = [
        [missed(fit(noisy(6, seed), CACHES, usual)["gemm"].seconds_per, others) for usual in (USUAL, None)]
        for seed in range(8)
    ]
    leaning, free = np.mean(off, axis=0)
    assert leaning < 0.2
    assert leaning < 0.5 * free


def test_what_is_not_known_of_another_cpu_holds_nothing():
    """An amount that it does not name cost nothing there, and few rows are pulled to that."""
    known = {name: cost for name, cost in USUAL["gemm"].items() if name != "right"}
    found = [
        [fit(noisy(6, seed), CACHES, {"gemm": of})["gemm"].seconds_per.get("right", 0.0) for of in (unknown, known)]
        for seed in range(8)
        for unknown in [{**known, "right": None}]
    ]
    free, held = np.mean(found, axis=0)
    assert held < 0.5 * free


def test_many_rows_tell_costs_whatever_another_cpu_has():
    usual = {"gemm": {"flop": 5e-12, "left": 4e-9, "result": 1e-12}}
    rows = [part(TRUTH, work) for work in gemms(100)]
    assert missed(fit(rows, CACHES, usual)["gemm"].seconds_per, rows) < 0.01
