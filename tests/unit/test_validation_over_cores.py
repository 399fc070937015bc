"""Cores that ranks were on by turns count alike, however often they were on each."""

import numpy as np
import pytest

from validation.over_cores import evened, median, over_cores

TIMES_S, CORES = np.array([1.0, 1.0, 1.2, 3.0, 3.3]), np.array([4, 4, 4, 7, 7])


def test_each_core_counts_the_same():
    assert over_cores(TIMES_S, CORES, median) == pytest.approx((1.0 + 3.15) / 2)
    assert over_cores(TIMES_S, np.zeros(5, dtype=np.int64), median) == 1.2


def test_noise_is_told_without_what_cores_differ_by():
    """Both cores come to the mean of their middles; what differs on one of them stays."""
    found = evened(TIMES_S, CORES, median)
    assert [median(found[core == CORES]) for core in (4, 7)] == pytest.approx([2.075, 2.075])
    assert found / found[0] == pytest.approx([1.0, 1.0, 1.2, 3.0 / 3.15, 3.3 / 3.15])
    assert TIMES_S[0] == 1.0, "what was given stays"


def test_nothing_stays_nothing():
    assert evened(np.zeros(3), np.array([0, 0, 1]), median).tolist() == [0.0, 0.0, 0.0]
