"""Cores that ranks were on by turns count alike, however often they were on each."""

import numpy as np
import pytest

from validation.over_cores import apart_s, evened, median_over_cores, usual, usual_of_cores, usual_over_cores

TIMES_S, CORES = np.array([1.0, 1.0, 1.2, 3.0, 3.3]), np.array([4, 4, 4, 7, 7])


def test_each_core_counts_the_same():
    assert median_over_cores(TIMES_S, CORES) == pytest.approx((1.0 + 3.15) / 2)
    assert median_over_cores(TIMES_S, np.zeros(5, dtype=np.int64)) == 1.2


def test_noise_is_told_without_what_cores_differ_by():
    """Both cores come to the mean of their middles; what differs on one of them stays."""
    found = evened(TIMES_S, CORES)
    assert [np.median(found[core == CORES]) for core in (4, 7)] == pytest.approx([2.075, 2.075])
    assert found / found[0] == pytest.approx([1.0, 1.0, 1.2, 3.0 / 3.15, 3.3 / 3.15])
    assert TIMES_S[0] == 1.0, "what was given stays"


def test_nothing_stays_nothing():
    assert evened(np.zeros(3), np.array([0, 0, 1])).tolist() == [0.0, 0.0, 0.0]


def test_iterations_that_were_held_up_are_not_usual():
    assert usual(np.array([0.31, 0.30, 0.67, 0.29, 0.30, 0.32])).tolist() == [0, 1, 4]
    assert usual(np.array([0.3])).tolist() == [0]


def test_each_core_has_usual_iterations_of_its_own():
    """Of the slow core as many as of the fast one."""
    assert [half.tolist() for half in usual_of_cores(TIMES_S, CORES)] == [[0, 1], [3]]
    assert usual_over_cores(np.array([1.0, 3.0, 9.0, 4.0, 9.0]), TIMES_S, CORES) == pytest.approx((2.0 + 4.0) / 2)


def test_ranks_are_apart_by_what_they_work_beside_collectives():
    """Two ranks on two cores by turns: 1 s from their mean on one, 3 s on the other, and one iteration held up."""
    seconds = np.full((6, 2), 10.0)
    seconds[5] = 40.0
    collectives_s = np.array([[1.0, 3.0], [3.0, 1.0], [1.0, 3.0], [1.0, 7.0], [7.0, 1.0], [1.0, 38.0]])
    assert apart_s(seconds, collectives_s, np.array([0, 0, 0, 1, 1, 1])) == pytest.approx((1.0 + 3.0) / 2)
