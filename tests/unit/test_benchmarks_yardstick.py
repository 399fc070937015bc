"""How the power of the yardstick is fitted."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.yardstick import Visit, fitted_power, within
from validation.yardstick import PIECES


def visits(random, job, power, base_s):
    """A job whose time goes with a power of what most pieces take, trained 21 times; one piece goes its own way."""
    slower = random.normal(0.0, 0.2, 21)
    slower -= np.median(slower)
    logarithms = np.repeat(slower[:, None], len(PIECES), axis=1)
    logarithms[:, 1] = random.normal(0.0, 1.0, 21)
    pieces, times = np.exp(logarithms), base_s * np.exp(power * slower)
    return [
        Visit(Path(job), 2, float(seconds), 0.0, dict(zip(PIECES, row.tolist(), strict=True)))
        for seconds, row in zip(times, pieces, strict=True)
    ]


def test_the_power_comes_back_from_jobs_of_all_lengths():
    random = np.random.default_rng(0)
    found = [*visits(random, "a", 0.6, 0.01), *visits(random, "b", 0.6, 3.0)]
    assert fitted_power(*within(found, lambda visit: visit.wall_s)) == pytest.approx(0.6, abs=1e-6)


def test_a_few_visits_that_were_interrupted_change_little():
    pieces, times = within(visits(np.random.default_rng(1), "a", 0.7, 0.1), lambda visit: visit.wall_s)
    times[:2] += 3.0
    assert fitted_power(pieces, times) == pytest.approx(0.7, abs=0.15)
    assert abs(np.sum(pieces * times) / np.sum(pieces**2) - 0.7) > 0.15, "least squares would be bent"


def test_a_job_trained_twice_says_nothing():
    found = visits(np.random.default_rng(2), "a", 0.5, 0.1)[:2]
    pieces, times = within(found, lambda visit: visit.wall_s)
    assert not len(pieces)
    assert not len(times)
