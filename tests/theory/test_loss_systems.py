"""Arriving jobs against closed forms: Erlang B whatever the service time, Kaufman and Roberts for several sizes."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from simulator.queueing.arriving_jobs import ArrivingJobs, served, sustained_per_s
from simulator.queueing.closed_forms import erlang_b, kaufman_roberts
from simulator.queueing.estimates import ratio_of, statistics_of

LOADS = [(1, 0.5), (4, 4.0), (16, 24.0)]
"""Servers and offered load; blocking from 31 to 39 %, which 60,000 jobs give within 2 %."""


def poisson(rate: float, count: int, *, devices: int = 1, fixed: bool = True, patience_s: float = 0.0) -> ArrivingJobs:
    """Jobs that are alike, of one second in the mean."""
    draw = np.random.default_rng(1)
    arrival_s, length_s = np.cumsum(draw.exponential(1 / rate, count)), draw.exponential(1.0, count)
    same = np.ones(count)
    return ArrivingJobs(arrival_s, np.full(count, devices), same if fixed else length_s, patience_s * same)


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "exponential"])
@pytest.mark.parametrize(("servers", "load"), LOADS)
def test_alike_jobs_are_blocked_as_often_as_erlang_says_whatever_their_service_time(servers, load, fixed):
    jobs = poisson(load, 60_000, fixed=fixed)
    found = statistics_of(jobs, served(jobs, servers), servers)
    expected = erlang_b(servers, load)
    assert found.blocking.value == pytest.approx(expected, rel=0.02)
    assert abs(found.blocking.value - expected) < 4 * found.blocking.standard_error
    assert found.utilisation.value == pytest.approx(load * (1 - expected) / servers, rel=0.02)
    if fixed:
        assert found.completion_s.value == found.completion_tail_s.value == pytest.approx(1.0)


@pytest.mark.parametrize(("servers", "load"), [*LOADS, (200, 190.0), (3, 1e-3)])
def test_the_recursion_is_erlangs_formula(servers, load):
    terms = [math.exp(n * math.log(load) - math.lgamma(n + 1)) for n in range(servers + 1)]
    assert erlang_b(servers, load) == pytest.approx(terms[-1] / sum(terms), rel=1e-9)
    assert kaufman_roberts(servers, [(1, load)]) == [pytest.approx(erlang_b(servers, load), rel=1e-9)]


def test_kaufman_and_roberts_count_the_states_of_the_product_form():
    """Every state of three streams, with the weight that its jobs have in equilibrium."""
    servers, streams = 9, [(1, 1.3), (2, 0.7), (4, 0.9)]
    weights = {
        counts: math.prod(load**n / math.factorial(n) for n, (_, load) in zip(counts, streams, strict=True))
        for counts in product(range(10), repeat=3)
        if sum(n * size for n, (size, _) in zip(counts, streams, strict=True)) <= servers
    }
    for size, blocked in zip((1, 2, 4), kaufman_roberts(servers, streams), strict=True):
        full = sum(
            weight
            for counts, weight in weights.items()
            if sum(n * each for n, (each, _) in zip(counts, streams, strict=True)) > servers - size
        )
        assert blocked == pytest.approx(full / sum(weights.values()), rel=1e-9)


def test_large_loads_do_not_overflow():
    assert kaufman_roberts(4096, [(1, 1e6), (64, 1e5)])[0] == pytest.approx(1.0, abs=0.01)


def test_jobs_of_two_sizes_are_blocked_as_often_as_kaufman_and_roberts_say():
    servers, count = 8, 60_000
    draw = np.random.default_rng(2)
    large = draw.random(count) < 0.3
    devices, run_s = np.where(large, 4, 1), np.where(large, 0.5, 1.0)
    jobs = ArrivingJobs(np.cumsum(draw.exponential(1 / 10, count)), devices, run_s, np.zeros(count))
    blocked = np.isnan(served(jobs, servers))
    expected = kaufman_roberts(servers, [(1, 7.0), (4, 1.5)])
    assert [blocked[~large].mean(), blocked[large].mean()] == pytest.approx(expected, rel=0.02)


def test_no_job_is_held_by_two_and_no_device_by_two_jobs():
    """Devices in use never exceed those that are there, nor are there any free when the first in line fits."""
    draw = np.random.default_rng(3)
    jobs = ArrivingJobs(
        np.cumsum(draw.exponential(0.2, 2_000)), draw.integers(1, 5, 2_000), draw.exponential(1.0, 2_000),
        np.full(2_000, math.inf),
    )  # fmt: skip
    starts = served(jobs, 8)
    assert (np.diff(starts) >= 0).all(), "first come, first served"
    times = np.concatenate([starts + jobs.run_s, starts])
    held = np.concatenate([-jobs.devices, jobs.devices])
    assert np.cumsum(held[np.argsort(times, kind="stable")]).max() <= 8


def test_a_job_leaves_when_it_waited_for_too_long_and_the_next_one_starts():
    jobs = ArrivingJobs(
        np.array([0.0, 1.0, 2.0, 3.0]), np.array([2, 4, 1, 1]), np.array([10.0, 1.0, 1.0, 1.0]),
        np.array([0.0, 4.0, 100.0, -1.0]),
    )  # fmt: skip
    starts = served(jobs, 4)
    assert starts[:3].tolist() == pytest.approx([0.0, math.nan, 5.0], nan_ok=True)
    assert math.isnan(starts[3]), "turned away: its patience is below 0"


def test_a_full_queue_serves_as_many_as_its_devices_can():
    jobs = poisson(1.0, 5_000, devices=2, fixed=False)
    assert sustained_per_s(jobs, 8) == pytest.approx(4.0, rel=0.03)
    assert sustained_per_s(poisson(1.0, 5_000, devices=5), 8) == pytest.approx(1.0, rel=0.01), "3 of 8 are never used"


def test_an_unlimited_queue_of_one_server_waits_as_pollaczek_and_khinchine_say():
    jobs = poisson(0.5, 60_000, patience_s=math.inf)
    wait_s = statistics_of(jobs, served(jobs, 1), 1).completion_s.value - 1
    assert wait_s == pytest.approx(0.5 / (2 * (1 - 0.5)), rel=0.02)


def test_the_standard_error_of_a_ratio_is_that_of_independent_batches():
    """Batches of coins: the jackknife's error is that of the binomial law, over many experiments."""
    draw = np.random.default_rng(4)
    whole = np.full(18, 1_000)
    errors = [ratio_of(draw.binomial(whole, 0.3), whole).standard_error for _ in range(300)]
    assert np.mean(errors) == pytest.approx(math.sqrt(0.3 * 0.7 / 18_000), rel=0.05)
