"""Iteration time and the rule that says when a run has settled."""

from itertools import accumulate

import pytest

from simulator.analysis import SteadyRule, iteration_time

SECOND_PS = 10**12


def ends(*durations_s: float) -> list[int]:
    """Iteration ends in ps of a run whose iterations take these many seconds."""
    return list(accumulate(round(d * SECOND_PS) for d in durations_s))


def test_equal_iterations_settle_after_two_windows():
    rule = SteadyRule()
    assert [rule(ends(*[2.0] * count)) for count in (1, 7, 8)] == [False, False, True]


def test_warm_up_is_left_out():
    time = iteration_time(ends(9.0, 3.0, *[2.0] * 8))
    assert (time.seconds, time.steady, time.warm_up_iterations, time.measured_iterations) == (2.0, True, 2, 8)


def test_alternating_iterations_are_measured_over_whole_periods():
    """5, 1, 5, 1... averages 3; the windows agree though no two neighbours do."""
    time = iteration_time(ends(*[5.0, 1.0] * 4))
    assert (time.seconds, time.steady, time.period_iterations) == (3.0, True, 2)


@pytest.mark.parametrize(("slower", "steady"), [(1.0009, True), (1.0011, False)])
def test_windows_may_differ_by_a_thousandth(slower, steady):
    assert SteadyRule()(ends(*[1.0] * 4, *[slower] * 4)) is steady


def test_every_window_must_agree_with_the_next_not_with_the_last():
    """A drift of 0.05 % a window is within the rule all the way back; a jump ends the settled part."""
    durations = [d for d in (7.0, 1.0, 1.0005, 1.001) for _ in range(4)]
    time = iteration_time(ends(*durations))
    assert (time.warm_up_iterations, time.measured_iterations) == (4, 12)


@pytest.mark.parametrize(
    ("durations", "before", "seconds"),
    [
        ((8.0, 4.0, 2.0), 1, 3.0),
        ((8.0, 4.0, 2.0, 1.0), 2, 1.5),
        ((8.0, 4.0, 2.0, 1.0, 1.5), 1, 2.125),  # whole windows of four, but for the first iteration
        ((8.0, 4.0, 2.0, 1.0, 1.5, 2.5, 3.5, 4.5, 5.5), 1, 3.0625),
        ((9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0), 4, 3.5),
    ],
)
def test_unsettled_run_is_measured_over_half_of_it_or_whole_windows_and_says_so(durations, before, seconds):
    time = iteration_time(ends(*durations))
    assert (time.steady, time.warm_up_iterations, time.seconds) == (False, before, seconds)
    assert time.period_iterations is None


def test_one_iteration_is_its_own_measurement():
    time = iteration_time(ends(2.5))
    assert (time.seconds, time.steady, time.warm_up_iterations, time.iterations) == (2.5, False, 0, 1)
    assert time.throughput_per_s(5) == 2.0


def test_iterations_that_take_no_time_settle_and_have_no_throughput():
    time = iteration_time([0] * 8)
    assert (time.seconds, time.steady, time.throughput_per_s(7)) == (0.0, True, 0.0)


def test_no_iteration_is_refused():
    with pytest.raises(ValueError, match="no iteration"):
        iteration_time([])


def test_windows_last_as_long_as_the_rule_says():
    """Bursts every 10 s: 4 iterations of 1 s say nothing, 12 do; two windows are 24 iterations."""
    rule = SteadyRule(span_ps=10 * 10**12)
    assert not rule(ends(*[1.0] * 23))
    assert rule(ends(*[1.0] * 24))
    assert iteration_time(ends(*[1.0] * 24), rule).measured_iterations == 24
