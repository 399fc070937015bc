"""How powers of the yardstick's pieces are fitted."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.yardstick import Visit, _powers, within

PIECES = ("product", "calls")


def visits(random, job, powers, base_s):
    """A job whose time goes with powers of the pieces, trained 20 times."""
    pieces = np.exp(random.normal(0.0, 0.2, (20, 2)))
    times = base_s * np.prod(pieces ** np.array(powers), axis=1)
    return [
        Visit(Path(job), 2, float(seconds), 0.0, dict(zip(PIECES, row.tolist(), strict=True)))
        for seconds, row in zip(times, pieces, strict=True)
    ]


def test_powers_come_back_from_jobs_of_all_lengths():
    """Not to the last digit: the middle time of a job is not quite that of its middle pieces."""
    random = np.random.default_rng(0)
    found = [*visits(random, "a", (0.6, 0.2), 0.01), *visits(random, "b", (0.6, 0.2), 3.0)]
    pieces, times = within(found, lambda visit: visit.wall_s, PIECES)
    assert _powers(pieces, times) == pytest.approx([0.6, 0.2], abs=0.05)


def test_a_few_visits_that_were_interrupted_change_little():
    random = np.random.default_rng(1)
    found = visits(random, "a", (0.5, 0.5), 0.1)
    pieces, times = within(found, lambda visit: visit.wall_s, PIECES)
    times[:2] += 3.0
    assert _powers(pieces, times) == pytest.approx([0.5, 0.5], abs=0.15)


def test_a_job_trained_twice_says_nothing():
    found = visits(np.random.default_rng(2), "a", (0.5, 0.5), 0.1)[:2]
    pieces, times = within(found, lambda visit: visit.wall_s, PIECES)
    assert pieces.shape == (0, 2)
    assert not len(times)
