"""Runs written down by hand, so that tests of the analysis know every time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.engine.records import ActivityTimes, EngineRun, GroupTimes, IterationRecord
from simulator.lowered import Activity, ConstantDurations, LoweredGroup, LoweredProgram, phase
from simulator.program import IntArray, Program, TaskGraph

Row = tuple[int, int] | tuple[int, int, int]
"""Start, end and (of a collective) waiting of a task on a rank."""


def group_times(ranks: Sequence[Sequence[Row]]) -> GroupTimes:
    """Times of a group, given for each rank the rows of its tasks in order."""
    table = np.array([[(*row, 0)[:3] for row in rows] for rows in ranks], dtype=np.int64)  # [P, T, 3]
    start, end, waiting = (np.ascontiguousarray(table[:, :, column].T) for column in range(3))
    return GroupTimes.of_ranks(start, end, np.arange(len(waiting)), waiting)


def hand_run(programs: Sequence[Program], iterations: Sequence[Sequence[GroupTimes]], first: int = 0) -> EngineRun:
    """The result of a run that recorded ``iterations`` (each: times per group), the first being number ``first``.

    Iterations before the first all ended at 0.
    """
    none = np.zeros(0, dtype=np.int64)
    records = tuple(
        IterationRecord(first + k, tuple(groups), ActivityTimes(none, none)) for k, groups in enumerate(iterations)
    )
    rank_end = np.stack([np.concatenate([g.end_ps.max(axis=0) for g in groups]) for groups in iterations])
    ends = np.concatenate([np.zeros(first, dtype=np.int64), rank_end.max(axis=1)])
    return EngineRun(
        ranks=np.concatenate([p.ranks for p in programs]),
        iteration_end_ps=ends,
        rank_end_ps=rank_end,
        rank_waiting_ps=np.zeros_like(rank_end),
        records=records,
    )


def lowered(graph: TaskGraph, durations: Sequence[IntArray] | None = None, latency_ps: int = 0) -> LoweredProgram:
    """The graph with each collective an activity per communicator instance.

    Args:
        graph: programs and communicators.
        durations: per program ``[T, P]``; default: private tasks take no time.
        latency_ps: what each collective takes from its last arrival; it uses no resource.
    """
    numbers: dict[tuple[str, int, int], int] = {}
    zeros = [np.zeros((p.task_count, p.rank_count), dtype=np.int64) for p in graph.programs]
    groups = tuple(
        _lowered_group(program, values, graph, numbers)
        for program, values in zip(graph.programs, durations or zeros, strict=True)
    )
    return LoweredProgram(groups, tuple(Activity(f"{key}", (phase(latency_ps),)) for key in numbers), 0)


def _lowered_group(
    program: Program, durations: IntArray, graph: TaskGraph, numbers: dict[tuple[str, int, int], int]
) -> LoweredGroup:
    calls: dict[str, int] = {}
    tasks: list[int] = []
    rows: list[IntArray] = []
    for task, work in enumerate(program.work):
        if isinstance(work, CollectiveCall):
            name = work.communicator
            calls[name] = calls.get(name, -1) + 1
            own = graph.communicators[name][program.ranks]
            keys = [(name, calls[name], int(instance)) for instance in own]
            tasks.append(task)
            rows.append(np.array([numbers.setdefault(k, len(numbers)) if k[2] >= 0 else -1 for k in keys]))
    return LoweredGroup(
        program.name, program.ranks, program.streams, program.names, program.stream_of, program.dep_ptr,
        program.dep_task, program.dep_lag,
        durations=ConstantDurations(durations),
        activity_tasks=np.array(tasks, dtype=np.int64),
        instances=np.array(rows, dtype=np.int64).reshape(len(tasks), program.rank_count),
    )  # fmt: skip
