"""The engine's surroundings: stop rules, recording, deadlocks, controllers, members that leave early."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.engine_programs import global_program, grouped_program
from inputs.errors import DeadlockError, InputError, ModelRangeError, ProgramError
from simulator.engine import IssueByReadiness, RunOptions, run
from simulator.engine.memory import ProgramMemory
from simulator.engine.oracle import run_oracle
from simulator.lowered import Activity, Background, ConstantDurations, LoweredGroup, LoweredProgram, phase
from simulator.program import Stream


def group(ranks, streams, tasks, activity_tasks=(), instances=(), name="g") -> LoweredGroup:
    """``tasks``: (stream, duration in ps, dependencies) for each task; all ranks alike."""
    deps = [list(t[2]) for t in tasks]
    flat = [d for each in deps for d in each]
    return LoweredGroup(
        name=name,
        ranks=np.asarray(ranks),
        streams=tuple(Stream(s) if isinstance(s, str) else s for s in streams),
        names=tuple(f"t{i}" for i in range(len(tasks))),
        stream_of=np.array([t[0] for t in tasks]),
        dep_ptr=np.cumsum([0, *(len(d) for d in deps)]),
        dep_task=np.array([d for d, _ in flat], dtype=np.int64),
        dep_lag=np.array([lag for _, lag in flat], dtype=np.int64),
        durations=ConstantDurations(np.array([[t[1]] for t in tasks], dtype=np.int64)),
        activity_tasks=np.array(activity_tasks, dtype=np.int64),
        instances=np.array(instances, dtype=np.int64).reshape(len(activity_tasks), len(ranks)),
    )


def test_a_stop_rule_ends_the_run_and_the_last_iterations_are_kept() -> None:
    program = global_program(8, 20, tasks=40)
    result = run(program, RunOptions(20, stop=lambda ends: len(ends) == 5, keep_last=2))
    assert result.iterations == 5
    assert [r.iteration for r in result.records] == [3, 4]


def test_totals_are_those_of_the_records() -> None:
    program = global_program(8, 3, tasks=40)
    result = run(program, RunOptions(3, keep_last=None))
    for k, record in enumerate(result.records):
        times = record.groups[0]
        assert result.iteration_end_ps[k] == times.end_ps.max()
        assert (result.rank_end_ps[k] == times.end_ps.max(axis=0)).all()
        assert (result.rank_waiting_ps[k] == times.waiting_ps.sum(axis=0)).all()


def test_waiting_is_the_time_to_the_last_arrival() -> None:
    slow, fast = (group([r], ["s"], [(0, d, ()), (0, 0, ())], [1], [[0]], f"g{r}") for r, d in [(0, 90), (1, 20)])
    program = LoweredProgram((slow, fast), [Activity("c", (phase(5, 10, [0]),))], 1)
    record = run(program, RunOptions(1)).records[0]
    assert [int(g.waiting_ps[1, 0]) for g in record.groups] == [0, 70]
    assert [int(g.end_ps[1, 0]) for g in record.groups] == [105, 105]
    assert record.activities.begin_ps.tolist() == [90]


def test_collectives_in_opposite_order_deadlock_and_the_message_names_who_is_missing() -> None:
    """Rank 0 calls a then b, rank 1 b then a: the textbook NCCL hang."""
    one = group([0], ["s"], [(0, 1, ()), (0, 0, ()), (0, 0, ())], [1, 2], [[0], [1]], "g0")
    two = group([1], ["s"], [(0, 1, ()), (0, 0, ()), (0, 0, ())], [1, 2], [[1], [0]], "g1")
    program = LoweredProgram((one, two), [Activity("a", (phase(1),)), Activity("b", (phase(1),))], 1)
    with pytest.raises(DeadlockError) as caught:
        run(program, RunOptions(1))
    assert "a of iteration 0: arrived ranks 0; missing ranks 1" in str(caught.value)
    assert "b of iteration 0: arrived ranks 1; missing ranks 0" in str(caught.value)


def test_a_long_list_of_missing_ranks_is_cut_to_eight_and_a_count() -> None:
    ranks = np.arange(20)
    waits_for_itself = group(ranks, ["s", "t"], [(0, 1, [(1, 0)]), (1, 0, [(0, 0)])])
    with pytest.raises(DeadlockError, match=r"t0 of iteration 0 .* ranks 0, 1, 2, 3, 4, 5, 6, 7, ... \(20 in all\)"):
        run(LoweredProgram((waits_for_itself,), [], 1), RunOptions(1))


def test_members_go_on_after_their_own_phase() -> None:
    both = group([0, 1], ["s"], [(0, 0, ()), (0, 3, ())], [0], [[0, 0]])
    activity = Activity("c", (phase(0, 10, [0]), phase(0, 10, [0])), np.array([0, 1]))
    record = run(LoweredProgram((both,), [activity], 1), RunOptions(1)).records[0]
    assert record.groups[0].end_ps.tolist() == [[10, 20], [13, 23]]


def test_a_stream_that_issues_by_readiness_takes_what_is_ready_first() -> None:
    """Tasks 2 and 3 sit in this order on the controlled stream, but 3's input is there at 10, 2's at 50."""
    tasks = [(0, 50, ()), (1, 10, ()), (2, 5, [(0, 0)]), (2, 30, [(1, 0)])]
    streams = ["a", "b", Stream("c", controller="readiness")]
    in_order = run(LoweredProgram((group([0], ["a", "b", "c"], tasks),), [], 1), RunOptions(1))
    by_readiness = run(
        LoweredProgram((group([0], streams, tasks),), [], 1),
        RunOptions(1, controllers={"readiness": IssueByReadiness()}),
    )
    assert in_order.records[0].groups[0].start_ps[2:, 0].tolist() == [50, 55]
    assert by_readiness.records[0].groups[0].start_ps[2:, 0].tolist() == [50, 10]


def test_workers_of_a_stream_take_the_next_task_when_they_are_free() -> None:
    """Tasks of 50, 10 and 30 that are all ready: the third starts when the second ends, with two workers."""
    tasks = [(0, 50, ()), (0, 10, ()), (0, 30, ())]
    for workers, starts in ((1, [0, 50, 60]), (2, [0, 0, 10]), (3, [0, 0, 0])):
        record = run(LoweredProgram((group([0], [Stream("s", workers=workers)], tasks),), [], 1), RunOptions(1))
        assert record.records[0].groups[0].start_ps[:, 0].tolist() == starts


@pytest.mark.parametrize("stream", [Stream("s"), Stream("s", workers=2), Stream("s", "readiness")])
@pytest.mark.parametrize("execute", [run, run_oracle])
def test_a_collective_of_one_rank_takes_no_time_on_any_stream(stream, execute) -> None:
    """A communicator of one rank has nothing to move: an activity without phases."""
    tasks = [(0, 5, ()), (0, 0, [(0, 0)]), (0, 7, [(1, 0)])]
    program = LoweredProgram((group([0], [stream], tasks, [1], [[0]]),), [Activity("c", ())], 0)
    record = execute(program, RunOptions(1, controllers={"readiness": IssueByReadiness()}))
    assert record.records[0].groups[0].end_ps[:, 0].tolist() == [5, 5, 12]


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"workers": 2, "controller": "readiness"}])
def test_a_stream_has_workers_or_a_controller(wrong) -> None:
    with pytest.raises(ProgramError, match="stream 's' has an impossible number of workers"):
        Stream("s", **wrong)


def one_collective(background: Background, work_ps: int = 100, usage: float = 1.0) -> int:
    """End of a collective that starts at 0 and alone takes ``work_ps``, in ps."""
    both = group([0, 1], ["s"], [(0, 0, ())], [0], [[0, 0]])
    activity = Activity("c", (phase(0, work_ps, [0], usage),))
    program = LoweredProgram((both,), [activity], 1, background=(background,))
    return int(run(program, RunOptions(1)).records[0].groups[0].end_ps.max())


@pytest.mark.parametrize(
    ("on", "off", "first", "usage", "end"),
    [
        (20, 0, 0, 1.0, 500),  # all the time: a fifth of the link is left
        (10, 30, 0, 1.0, 132),  # bursts at 0, 40, 80, 120: 32 ps of work in each 40, 96 by 120, 98 by 130, then 2
        (10, 30, 20, 1.0, 124),  # bursts at 20, 60, 100: 20, then 32 in each 40: 84 by 100, 86 by 110, then 14
        (10, 30, -20, 1.0, 124),  # the same bursts, counted from an earlier one
        (10, 30, 0, 0.2, 100),  # what is left is enough
        (10, 30, 0, 0.4, 115),  # half speed in bursts: 35 in each 40, 70 by 80, 75 by 90, then 25
    ],
)
def test_bursts_of_another_job_leave_a_fifth_of_the_link(on, off, first, usage, end) -> None:
    assert one_collective(Background(np.array([0]), 0.8, on, off, first), usage=usage) == pytest.approx(end, abs=2)


def test_a_task_alone_on_its_link_meets_bursts_too() -> None:
    """Otherwise private: one rank, one stream, no other user of the link."""
    one = group([0], ["s"], [(0, 0, ())], [0], [[0]])
    activities = [Activity("copy", (phase(0, 100, [0]),))]
    program = LoweredProgram((one,), activities, 1, background=(Background(np.array([0]), 0.5),))
    assert run(program, RunOptions(1)).records[0].groups[0].end_ps.tolist() == [[200]]


def test_bursts_of_another_job_do_not_hide_a_deadlock() -> None:
    one = group([0], ["s"], [(0, 1, ()), (0, 0, ())], [1], [[0]], "g0")
    two = group([1], ["s"], [(0, 1, [(1, 0)]), (0, 0, ())], [1], [[0]], "g1")
    bursts = Background(np.array([0]), 0.5, 3, 3)
    program = LoweredProgram((one, two), [Activity("c", (phase(1, 5, [0]),))], 1, background=(bursts,))
    with pytest.raises(DeadlockError, match="arrived ranks 0; missing ranks 1"):
        run(program, RunOptions(1))


def test_an_unknown_controller_is_named() -> None:
    one = group([0], [Stream("s", controller="readines")], [(0, 1, ())])
    with pytest.raises(InputError, match="readiness"):
        run(LoweredProgram((one,), [], 1), RunOptions(1, controllers={"readiness": IssueByReadiness()}))


def test_a_phase_of_over_an_hour_is_refused() -> None:
    both = group([0, 1], ["s"], [(0, 0, ())], [0], [[0, 0]])
    with pytest.raises(ModelRangeError, match="too long"):
        run(LoweredProgram((both,), [Activity("c", (phase(0, 2**53, [0]),))], 1), RunOptions(1))


def test_ports_used_alike_are_one_resource_class() -> None:
    """512 ports in 64 nodes whose loads differ: one class per node and (two collectives apart) no more."""
    table = ProgramMemory().usage(grouped_program(512, 1, tasks=40))
    assert table.class_count <= 512
    assert ProgramMemory().usage(global_program(512, 1, tasks=40)).class_count == 1
