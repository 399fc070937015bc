"""What collectives take of cores, planted and found."""

import numpy as np
import pytest

from validation.collective_work import CollectiveWork, calls_lost, thread_costs


def test_what_threads_work_comes_back():
    """2 ms for each of 1 to 4 collectives, and 1.5 s for each second of moving."""
    numbers = [(1 + i % 4, 1e-3 * i) for i in range(12)]
    jobs = [CollectiveWork(moving_s, 2e-3 * calls + 1.5 * moving_s, calls) for calls, moving_s in numbers]
    assert thread_costs(jobs) == (pytest.approx(2e-3, rel=0.01), pytest.approx(1.5, rel=0.01))


def test_what_calls_lose_is_found():
    """0.05 ms for each and a quarter of the time in which data move; a job that does not tell counts for nothing."""
    random = np.random.default_rng(0)
    jobs = [CollectiveWork(5.0, 1.0, calls=6)]
    for moving_s in random.uniform(1e-4, 1e-2, 20).tolist():
        calls, own_s = int(random.integers(1, 8)), 4e-4
        jobs.append(CollectiveWork(moving_s, 1.0, calls, own_s + 5e-5 * calls + 0.25 * moving_s, own_s))
    assert calls_lost(jobs) == pytest.approx((5e-5, 0.25))
    assert calls_lost(jobs[:1]) == (0.0, 0.0)


def test_calls_lose_their_core_while_others_have_work():
    """2 ms each, were others always at work."""
    jobs = [CollectiveWork(0.0, 1.0, 6, 6 * 2e-3 * part, 0.0, part) for part in (0.1, 0.3, 0.5)]
    assert calls_lost(jobs) == pytest.approx((2e-3, 0.0))
