"""A coordinator that fuses collectives: cycles, agreements, buffers, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from inputs.errors import DeadlockError
from simulator.engine import RunOptions, run
from simulator.engine.oracle import run_oracle
from simulator.lowered import Activity, ConstantDurations, FusedCalls, LoweredGroup, LoweredProgram, phase
from simulator.operators import Marker
from simulator.program import ProgramBuilder, Stream

BOTH = pytest.mark.parametrize("execute", [run, run_oracle])


def job(ready_ps, sizes, *, fusion=100, cycle=0, negotiation=0, copy=0.0, ranks=2):
    """Calls of ``sizes`` that become ready at ``ready_ps [C]`` or ``[C, ranks]``; a byte takes 1 ps, a call 5 ps."""
    ready = np.broadcast_to(np.asarray(ready_ps).reshape(len(sizes), -1), (len(sizes), ranks))
    waits = [f"wait{n}" for n in range(len(sizes))]
    builder = ProgramBuilder("g", np.arange(ranks), [*waits, Stream("fused", "fuse")])
    tasks = [builder.task(name, name, Marker()) for name in waits]
    for number, task in enumerate(tasks):
        builder.task(f"call{number}", "fused", Marker(), after=[task])
    count = len(sizes)
    known = [Activity(f"{size} B", (phase(5, size, [0]),)) for size in (128, 256)]
    own = [Activity(f"call{n}", (phase(0, 1, [0]),)) for n in range(count)]
    durations = ConstantDurations(np.concatenate([ready, np.zeros_like(ready)]))
    rows = {count + number: np.full(ranks, number) for number in range(count)}
    group = LoweredGroup.with_rows(builder.build(), durations, rows)
    fused = FusedCalls(
        call_of=(np.concatenate([np.full(count, -1), np.arange(count)]),),
        bytes=np.array(sizes),
        sizes=np.array([128, 256]),
        activities=np.array([count, count + 1]),
        fusion_bytes=fusion,
        cycle_ps=cycle,
        negotiation_ps=negotiation,
        copy_ps_per_byte=copy,
    )
    return LoweredProgram((group,), [*own, *known], 1, fused={"fuse": fused})


def ends(program, execute, iterations=1):
    """Ends of the calls on all ranks in the last iteration, relative to nothing."""
    record = execute(program, RunOptions(iterations, keep_last=None)).records[-1]
    found = record.groups[0].end_ps[len(program.groups[0].names) // 2 :]
    assert (found == found[:, :1]).all()
    return found[:, 0].tolist()


@BOTH
def test_a_call_alone_takes_its_latency_and_the_part_of_a_known_size(execute) -> None:
    assert ends(job([0], [100]), execute) == [105]


@BOTH
def test_calls_that_are_ready_together_share_a_buffer_and_end_together(execute) -> None:
    assert ends(job([0, 0, 0], [10, 20, 30]), execute) == [65, 65, 65]


@BOTH
def test_a_full_buffer_is_followed_by_the_next(execute) -> None:
    """60 and 40 bytes fill it; then 50."""
    assert ends(job([0, 0, 0], [60, 40, 50]), execute) == [105, 105, 160]


@BOTH
def test_a_call_larger_than_the_buffer_runs_alone(execute) -> None:
    assert ends(job([0, 0, 0], [10, 250, 10]), execute) == [15, 270, 285]


@BOTH
def test_copies_are_made_only_where_several_calls_are_fused(execute) -> None:
    assert ends(job([0], [40], copy=2.0), execute) == [45]
    assert ends(job([0, 0], [40, 10], copy=2.0), execute) == [155, 155]


@BOTH
def test_what_becomes_ready_while_a_buffer_runs_is_fused_afterwards(execute) -> None:
    """The first runs from 0 to 15; 7 and 9 wait for that."""
    assert ends(job([0, 7, 9], [10, 20, 30]), execute) == [15, 70, 70]


@BOTH
def test_cycles(execute) -> None:
    """Looks at 0, 100, 200 ps: ready at 130 is seen at 200, and what comes at 160 with it; agreeing takes 7 ps."""
    assert ends(job([130, 160], [10, 20], cycle=100, negotiation=7), execute) == [242, 242]


@BOTH
def test_the_next_cycle_begins_when_the_calls_of_a_long_one_have_ended(execute) -> None:
    """From 0 to 105; the next look is at 105, later than the cycle of 50, and not at 150."""
    assert ends(job([0, 80], [100, 20], cycle=50), execute) == [105, 130]


@BOTH
def test_a_call_waits_for_the_slowest_rank(execute) -> None:
    assert ends(job([[0, 50], [10, 10]], [10, 20]), execute) == [65, 35]


@BOTH
def test_order_is_that_of_readiness_not_of_the_program(execute) -> None:
    """Call 2 is ready at 1, while call 0 runs; call 1 at 2: they are fused in this order, and end with call 1."""
    assert ends(job([0, 2, 1], [90, 40, 70]), execute) == [95, 215, 170]


@BOTH
def test_iterations_follow_each_other(execute) -> None:
    """Waits of 20 ps on streams of their own run ahead; the calls of iteration 1 are fused as those of iteration 0."""
    program = job([20, 20], [10, 20], cycle=10)
    assert ends(program, execute) == [55, 55]
    assert ends(program, execute, iterations=2) == [90, 90]


@BOTH
def test_a_rank_that_never_comes_is_a_deadlock(execute) -> None:
    builder = ProgramBuilder("g", [0, 1], ["s", Stream("fused", "fuse")])
    first = builder.task("first", "s", Marker())
    call = builder.task("call", "fused", Marker(), after=[first])
    builder.depend(first, call)
    group = LoweredGroup.with_rows(
        builder.build(), ConstantDurations(np.zeros((2, 1), dtype=np.int64)), {1: np.zeros(2, dtype=np.int64)}
    )
    fused = FusedCalls((np.array([-1, 0]),), np.array([1]), np.array([8]), np.array([1]), 8, 100, 0, 0.0)
    activities = [Activity("call", (phase(1),)), Activity("8 B", (phase(1),))]
    with pytest.raises(DeadlockError):
        execute(LoweredProgram((group,), activities, 1, fused={"fuse": fused}), RunOptions(1))
