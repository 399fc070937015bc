"""Queues against closed forms: M/D/1, batches, and laws that hold whatever the arrivals."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.queueing.arrivals import poisson_arrivals
from simulator.queueing.batching import BatchRule, ServiceTimes, serve
from simulator.queueing.closed_forms import md1_wait_s
from simulator.queueing.latency import latency_of, load_of, queue_over_time

SERVICE_S = 1e-3
ONE = BatchRule(1)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def mean_wait_s(gaps_s: np.ndarray) -> float:
    served = serve(np.cumsum(gaps_s), 1, ONE, ServiceTimes.fixed(SERVICE_S), generator())
    return float((served.start_s - served.arrival_s).mean())


@pytest.mark.parametrize(("load", "requests"), [(0.3, 60_000), (0.6, 100_000), (0.9, 500_000)])
def test_one_server_with_fixed_times_is_md1(load, requests):
    """Two runs with opposite draws: a standard deviation of their mean of at most 1 % of the waiting time."""
    u = generator().random(requests)
    pair = [mean_wait_s(gaps * SERVICE_S / load) for gaps in (-np.log1p(-u), -np.log(np.maximum(u, 1e-300)))]

    assert np.mean(pair) == pytest.approx(md1_wait_s(load / SERVICE_S, SERVICE_S), rel=0.02)


def test_the_closed_form_has_no_bound_from_full_load_on():
    assert md1_wait_s(500.0, SERVICE_S) == pytest.approx(SERVICE_S / 2.0)
    assert md1_wait_s(1.0 / SERVICE_S, SERVICE_S) == float("inf")


def test_arrivals_are_poisson():
    """Counts of equal intervals have equal mean and variance, within three standard errors of each."""
    times = poisson_arrivals(1000.0, 100.0, generator(3))
    counts = np.bincount((times * 10.0).astype(int), minlength=1000)

    assert np.all(np.diff(times) > 0.0)
    assert times[-1] < 100.0
    assert counts.mean() == pytest.approx(100.0, abs=3 * 10.0 / np.sqrt(1000))
    assert counts.var() == pytest.approx(100.0, abs=3 * 100.0 * np.sqrt(2.0 / 1000))


def test_a_queue_for_each_server_is_one_for_all_in_turn_and_md1_at_random():
    """With fixed times requests that are dealt in turn wait as in one queue (M/D/c); dealt at random, as M/D/1 each."""
    times = poisson_arrivals(0.7 * 4 / SERVICE_S, 20.0, generator(1))
    waits = {}
    for routing in ("shared", "round_robin", "random"):
        served = serve(times, 4, ONE, ServiceTimes.fixed(SERVICE_S), generator(2), routing)
        assert np.all(np.diff(served.arrival_s) > 0.0)
        waits[routing] = float((served.start_s - served.arrival_s).mean())

    assert waits["shared"] == pytest.approx(waits["round_robin"], rel=1e-9)
    assert waits["shared"] < 0.5 * waits["random"]
    assert waits["random"] == pytest.approx(md1_wait_s(0.7 / SERVICE_S, SERVICE_S), rel=0.1)


@pytest.mark.parametrize("routing", ["shared", "round_robin", "random"])
def test_work_is_conserved_and_nobody_begins_early(routing):
    most, servers, longest_s = 16, 3, 2 * SERVICE_S
    service = ServiceTimes(SERVICE_S * (1.0 + 0.1 * np.arange(most)), np.full(most, SERVICE_S / 20.0))
    times = poisson_arrivals(20_000.0, 1.0, generator(5))
    served = serve(times, servers, BatchRule(most, longest_s), service, generator(6), routing)

    assert served.batch_size.sum() == len(times) == len(served.end_s)
    assert served.batch_size.min() >= 1
    assert served.batch_size.max() <= most
    assert np.all(served.start_s >= served.arrival_s)
    assert np.all(served.end_s > served.start_s)
    edges = np.concatenate([served.batch_start_s, served.batch_end_s])
    steps = np.concatenate([np.ones(len(served.batch_size)), -np.ones(len(served.batch_size))])
    order = np.lexsort((steps, edges))  # an end before a start at the same time
    assert np.cumsum(steps[order]).max() <= servers


def test_a_batch_begins_when_it_is_full_or_its_first_request_has_waited():
    rule, service = BatchRule(3, 0.5), ServiceTimes.fixed(0.1, 3)
    served = serve(np.array([0.0, 0.1, 0.2, 1.0, 3.0, 3.05]), 1, rule, service, generator())

    assert served.batch_start_s.tolist() == pytest.approx([0.2, 1.5, 3.5])
    assert served.batch_size.tolist() == [3, 1, 2]


def test_requests_that_come_while_a_server_works_go_together():
    served = serve(np.array([0.0, 0.1, 0.2, 0.3]), 1, BatchRule(8), ServiceTimes.fixed(1.0, 8), generator())

    assert served.batch_start_s.tolist() == [0.0, 1.0]
    assert served.batch_size.tolist() == [1, 3]


def test_reported_load_follows_littles_law():
    """Mean number of waiting requests = rate x mean wait; work = rate x time of a request."""
    rate, horizon_s = 0.8 / SERVICE_S, 100.0
    served = serve(poisson_arrivals(rate, horizon_s, generator(7)), 1, ONE, ServiceTimes.fixed(SERVICE_S), generator())
    load, latency = load_of(served, 1, horizon_s), latency_of(served, horizon_s)
    _, waiting = queue_over_time(served, horizon_s)

    assert load.answered_per_s == pytest.approx(rate, rel=0.02)
    assert load.busy == pytest.approx(load.answered_per_s * SERVICE_S, rel=1e-3)
    assert load.waiting == pytest.approx(load.answered_per_s * latency.wait_s, rel=0.01)
    assert waiting[20:].mean() == pytest.approx(load.waiting, rel=1e-9), "the warm-up is a tenth of 200 parts"
    assert latency.mean_s == pytest.approx(latency.wait_s + SERVICE_S)
    assert latency.p50_s < latency.p90_s < latency.p99_s < latency.p999_s


def test_a_run_repeats_itself():
    def again(seed: int) -> list[float]:
        service = ServiceTimes(np.full(4, SERVICE_S), np.full(4, SERVICE_S / 10.0))
        return serve(np.arange(100) / 1000.0, 2, BatchRule(4), service, generator(seed)).end_s.tolist()

    assert again(1) == again(1) != again(2)
