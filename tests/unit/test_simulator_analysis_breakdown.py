"""Breakdown and choice of ranks on runs written down by hand."""

import numpy as np
import pytest

from simulator.analysis import break_down, choose_ranks, imbalance, measured_window
from simulator.collective_calls import CollectiveCall
from simulator.operators import Copy, Gemm, HostWork
from simulator.program import ProgramBuilder
from tests.analysis_runs import group_times, hand_run

GEMM = Gemm(8, 8, 8, "fp16")


def four_kinds(ranks):
    """Host, compute, comm and copy, one task each on a stream of its own."""
    builder = ProgramBuilder("group", ranks, ["host", "default", "comm", "memcpy"])
    builder.task("launch", "host", HostWork(1))
    builder.task("gemm", "default", GEMM)
    builder.task("all_reduce", "comm", CollectiveCall("all_reduce", "world", 8))
    builder.task("copy", "memcpy", Copy(8, "h2d"))
    return builder.build()


def test_compute_wins_over_comm_over_copy():
    program = four_kinds([0])
    times = group_times([[(0, 40), (0, 10), (5, 20, 7), (15, 30)]])
    breakdown = break_down([program], hand_run([program], [[times]]))
    parts = [breakdown.compute_ps, breakdown.exposed_comm_ps, breakdown.exposed_copy_ps, breakdown.idle_ps]
    assert [int(p[0]) for p in parts] == [10, 10, 10, 10]
    totals = [breakdown.comm_ps, breakdown.copy_ps, breakdown.host_ps, breakdown.waiting_ps]
    assert [int(t[0]) for t in totals] == [15, 15, 40, 7]


def test_window_is_the_last_iteration_that_a_recorded_one_starts_after():
    """Iteration 2's copy ran from 25 on and belongs to the window of iteration 1; iteration 3 starts after it."""
    program = four_kinds([0])
    one = group_times([[(0, 10), (0, 10), (10, 20), (0, 5)]])
    two = group_times([[(20, 30), (20, 30), (30, 40), (20, 22)]])
    three = group_times([[(40, 50), (40, 50), (50, 60), (25, 37)]])
    four = group_times([[(60, 70), (60, 70), (70, 80), (45, 57)]])
    assert measured_window(hand_run([program], [[one], [two], [three]])).iteration == 0, "3 might have started by 40"
    result = hand_run([program], [[one], [two], [three], [four]])
    assert measured_window(result).iteration == 1
    breakdown = break_down([program], result)
    assert (breakdown.window.start_ps, breakdown.window.end_ps) == (20, 40)
    assert [int(t[0]) for t in (breakdown.compute_ps, breakdown.exposed_comm_ps, breakdown.copy_ps)] == [10, 10, 14]
    assert int(breakdown.idle_ps[0]) == 0


def test_waiting_counts_only_inside_the_window():
    """The all_reduce of iteration 1 arrives at 5, 5 ps before the window opens, and waits until 12."""
    program = four_kinds([0])
    one = group_times([[(0, 1), (0, 10), (0, 1), (0, 1)]])
    two = group_times([[(10, 11), (10, 20), (5, 15, 7), (10, 11)]])
    three = group_times([[(20, 21), (20, 30), (20, 21), (20, 21)]])
    breakdown = break_down([program], hand_run([program], [[one], [two], [three]]))
    assert (int(breakdown.waiting_ps[0]), int(breakdown.comm_ps[0])) == (2, 5)


def test_groups_stand_one_after_the_other_and_blocks_of_ranks_do_not_show(monkeypatch):
    monkeypatch.setattr("simulator.analysis.breakdown.CLASSES_PER_BLOCK", 2)
    first, second = four_kinds([1, 3, 5]), four_kinds([0, 2])
    times = [
        group_times([[(0, 0), (0, length), (9, 9), (9, 9)] for length in lengths]) for lengths in ([3, 5, 7], [2, 9])
    ]
    breakdown = break_down([first, second], hand_run([first, second], [times]))
    assert breakdown.ranks.tolist() == [1, 3, 5, 0, 2]
    assert breakdown.compute_ps.tolist() == [3, 5, 7, 2, 9]
    assert imbalance(breakdown) == pytest.approx(9 / 5.2)


def test_slowest_rank_is_the_one_the_others_wait_for():
    program = four_kinds([4, 5, 6, 7])
    rows = [[(0, 0), (0, 10 - w), (10 - w, 20, w), (0, 0)] for w in (3, 0, 5, 1)]
    chosen = choose_ranks(break_down([program], hand_run([program], [[group_times(rows)]])))
    assert (chosen.slowest, chosen.fastest, chosen.median, chosen.first) == (5, 6, 7, 4)
    assert chosen.distinct() == (4, 5, 6, 7)


def test_equal_ranks_are_chosen_by_number():
    program = four_kinds([0, 1, 2])
    rows = [[(0, 0), (0, 5), (5, 9), (0, 0)]] * 3
    chosen = choose_ranks(break_down([program], hand_run([program], [[group_times(rows)]])))
    assert (chosen.slowest, chosen.median, chosen.fastest) == (0, 1, 2)


def test_a_run_without_records_is_refused():
    program = four_kinds([0])
    result = hand_run([program], [[group_times([[(0, 1)] * 4])]])
    empty = type(result)(result.ranks, result.iteration_end_ps, result.rank_end_ps, np.zeros((1, 1)), ())
    with pytest.raises(ValueError, match="recorded no iteration"):
        break_down([program], empty)
