"""Cores that ranks were on by turns count alike, however often they were on each."""

import numpy as np
import pytest

from validation.over_cores import apart_s, evened, median_over_cores, part_over_cores, unhindered, usual

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


def test_the_slowest_tenth_is_hindered_whichever_core_it_is_on():
    """The iterations of 9 s are, of both cores, though the one takes three times as long as the other."""
    seconds, cores = np.array([1.0, 9.0] * 1 + [1.0] * 8 + [3.0] * 9 + [9.0]), np.repeat([4, 7], 10)
    assert unhindered(seconds, cores).tolist() == [0, *range(2, 19)]
    assert unhindered(np.array([0.3]), np.array([0])).tolist() == [0]
    assert unhindered(np.arange(12.0), np.zeros(12, dtype=np.int64)).tolist() == list(range(11)), "at most a tenth is"


def test_a_part_has_its_share_of_what_was_not_hindered():
    """A tenth of the iterations of one core and a fifth of those of the other, of 1 and 3 s."""
    seconds, cores = np.array([1.0] * 9 + [9.0] + [3.0] * 9 + [9.0]), np.repeat([4, 7], 10)
    values = np.array([0.1] * 9 + [8.0] + [0.6] * 9 + [6.0])
    assert part_over_cores(values, seconds, cores) == pytest.approx((0.1 + 0.6) / 2)


def test_a_part_is_told_with_its_stalls():
    """Of 20 iterations six stall; two of these are the slowest tenth, four count, though none is near the middle."""
    stalls = np.arange(20) % 10 >= 7
    seconds, values = np.where(stalls, 1.5, 1.0), np.where(stalls, 0.6, 0.1)
    found = part_over_cores(values, seconds, np.zeros(20, dtype=np.int64))
    assert found == pytest.approx((14 * 0.1 + 4 * 0.6) / (14 * 1.0 + 4 * 1.5))


def test_ranks_are_apart_by_what_they_work_beside_collectives():
    """Two ranks on two cores by turns: 1 s from their mean on one, 3 s on the other, and one iteration held up."""
    seconds = np.full((10, 2), 10.0)
    seconds[9] = 40.0
    ahead = np.array([[1.0, 3.0], [3.0, 1.0], [1.0, 3.0], [3.0, 1.0], [1.0, 3.0]])
    behind = np.array([[1.0, 7.0], [7.0, 1.0], [1.0, 7.0], [7.0, 1.0], [1.0, 38.0]])
    cores = np.repeat([0, 1], 5)
    assert apart_s(seconds, np.concatenate([ahead, behind]), cores) == pytest.approx((1.0 + 3.0) / 2)
