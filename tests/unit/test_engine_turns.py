"""Turns on a resource: who has it, until when."""

from dataclasses import replace

import numpy as np
import pytest

from inputs.errors import ProgramError
from simulator.engine import RunOptions, run
from simulator.engine.capacity import NEVER
from simulator.engine.turns import Turn
from simulator.lowered import Activity, LoweredProgram, phase
from tests.unit.test_engine_run import group


def test_those_who_come_together_are_served_by_number_slice_by_slice():
    turn = Turn(10)
    assert [turn.pass_on(now, {3, 1, 2}) for now in (0, 10, 20, 30)] == [1, 2, 3, 1]


def test_a_slice_does_not_end_before_its_time():
    turn = Turn(10)
    assert turn.pass_on(0, {1, 2}) == 1
    assert turn.until == 10
    assert turn.pass_on(9, {1, 2}) == 1
    assert turn.until == 10


def test_who_has_nothing_to_do_gives_it_to_the_next_whole():
    turn = Turn(10)
    turn.pass_on(0, {1, 2, 3})
    assert turn.pass_on(4, {2, 3}) == 2
    assert turn.until == 14


def test_who_comes_back_queues_behind_those_who_wait():
    turn = Turn(10)
    turn.pass_on(0, {1, 2, 3})
    turn.pass_on(4, {2, 3})
    turn.pass_on(5, {1, 2, 3})
    assert [turn.pass_on(now, {1, 2, 3}) for now in (14, 24, 34)] == [3, 1, 2]


def test_who_comes_late_waits_for_the_end_of_the_slice_under_way():
    turn = Turn(10)
    assert turn.pass_on(0, {1}) == 1
    assert turn.until == NEVER, "nobody waits"
    assert turn.pass_on(27, {1, 2}) == 1
    assert turn.until == 30
    assert turn.pass_on(30, {1, 2}) == 2


def test_nobody_has_it_when_nobody_wants_it():
    turn = Turn(10)
    turn.pass_on(0, {1})
    assert turn.pass_on(3, set()) is None
    assert turn.pass_on(5, {2}) == 2


def ends(slice_ps, *phases):
    """Ends of an activity of one phase on each rank, ps."""
    ranks = list(range(len(phases)))
    shell = group(ranks, ["host"], [(0, 0, ())], [0], [ranks])
    activities = [Activity(f"a{rank}", (each,)) for rank, each in enumerate(phases)]
    result = run(LoweredProgram((shell,), activities, 2, slice_ps=slice_ps), RunOptions(1))
    return result.records[0].groups[0].end_ps[0].tolist()


def test_owners_work_by_turns_and_who_has_no_owner_shares_with_the_one_whose_turn_it_is():
    """Alone 100 each: 0 and 1 take turns; the one without an owner has half of the resource until it is done at 200."""
    owned = [phase(0, 100, [0], owner=owner) for owner in (0, 1)]
    assert ends(30, *owned) == [190, 200]
    assert ends(30, *owned, phase(0, 100, [0])) == [300, 295, 200]
    assert ends(0, *owned) == [200, 200], "without slices they share"
    assert ends(30, phase(0, 100, [0], owner=0), phase(0, 100, [1], owner=1)) == [100, 100], "of two resources"


def test_nobody_takes_turns_on_two_resources_at_once():
    with pytest.raises(ProgramError, match="take turns on 2 resources"):
        ends(30, phase(0, 100, [0, 1], owner=0))


def test_parts_of_a_full_resource_are_by_weight():
    """Alone 100 each: the heavy one has three quarters until it is done at 133, the other what is left of its 100."""
    assert ends(0, phase(0, 100, [0], weight=3.0), phase(0, 100, [0])) == [134, 201], (
        "each phase to the next whole picosecond"
    )


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_that_is_none_is_refused(weight):
    with pytest.raises(ProgramError, match="would have the weight"):
        ends(0, phase(0, 100, [0], weight=weight))


@pytest.mark.parametrize("stalls_in", range(8))
def test_a_latency_of_some_iterations_is_in_every_eighth(stalls_in):
    """Alone 100 after a latency of 1000; nothing else slows it, but it is no private task of one duration."""
    shell = group([0], ["host"], [(0, 0, ())], [0], [[0]])
    stall = replace(phase(1000), stalls_in=stalls_in)
    result = run(LoweredProgram((shell,), [Activity("a", (stall, phase(0, 100, [0])))], 1), RunOptions(17))
    expected = [1100 if iteration % 8 == stalls_in else 100 for iteration in range(17)]
    assert np.diff(result.iteration_end_ps, prepend=0).tolist() == expected


@pytest.mark.parametrize(("work_ps", "stalls_in"), [(100, 1), (0, 8), (0, -1)])
def test_only_latencies_are_of_some_iterations_and_of_eight(work_ps, stalls_in):
    with pytest.raises(ProgramError, match="would stall in iterations"):
        ends(0, replace(phase(1000, work_ps, [0] if work_ps else []), stalls_in=stalls_in))
