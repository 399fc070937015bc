"""A measured run: a task graph with the times of a trace, in the shape of a simulated run.

One pass through the whole trace is one iteration of the program, the profiler's steps are windows of it. So every
analysis and every page of a simulated run serves a measured one, and the engine can run the program again: its private
tasks last from their last input to their measured end, its collectives from the last arrival to the first member's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.engine import ActivityTimes, EngineRun, GroupTimes, IterationRecord
from simulator.engine.records import RunRecorder
from simulator.lowered import Activity, ConstantDurations, LoweredGroup, LoweredProgram, phase
from simulator.program import IntArray, Program, TaskGraph, sequenced_calls
from traces.merge import Merged


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A trace as a run.

    Attributes:
        graph: the programs of the ranks that have a trace.
        lowered: the same with measured durations: the program that the engine runs to replay the trace.
        result: the times as measured, one recorded iteration.
    """

    graph: TaskGraph
    lowered: LoweredProgram
    result: EngineRun


@dataclass(frozen=True, slots=True)
class _Place:
    """A collective task of a group and its members there."""

    group: int
    task: int
    columns: IntArray


def measured_run(merged: Merged) -> MeasuredRun:
    """The run that a trace shows.

    Args:
        merged: programs and times; times start at 0, common to all ranks.
    """
    graph = merged.graph
    starts = [start.copy() for start in merged.start_ps]
    ends = [end.copy() for end in merged.end_ps]
    tasks = [_collectives(program) for program in graph.programs]
    instances = [
        np.full((len(t), p.rank_count), -1, dtype=np.int64) for t, p in zip(tasks, graph.programs, strict=True)
    ]
    tails = [_after(program)[own] for program, own in zip(graph.programs, tasks, strict=True)]
    activities: list[Activity] = []
    last_ps, end_ps = [], []
    for label, places in _meetings(graph):
        last = max(int(starts[p.group][p.task, p.columns].max()) for p in places)
        end = max(min(int(ends[p.group][p.task, p.columns].min()) for p in places), last)
        for place in places:
            row = int(np.searchsorted(tasks[place.group], place.task))
            instances[place.group][row, place.columns] = len(activities)
            _close(place, int(tails[place.group][row]), starts[place.group], ends[place.group], end)
        activities.append(Activity(label, (phase(latency_ps=end - last),)))
        last_ps.append(last)
        end_ps.append(end)
    last_of = np.array(last_ps, dtype=np.int64)
    columns = list(zip(tasks, starts, ends, instances, strict=True))
    groups = tuple(_lowered(p, *own) for p, own in zip(graph.programs, columns, strict=True))
    times = tuple(_times(*own, last_of) for own in columns)
    recorder = RunRecorder(np.concatenate([p.ranks for p in graph.programs]), None)
    recorder.add(IterationRecord(0, times, ActivityTimes(last_of, np.array(end_ps, dtype=np.int64))))
    return MeasuredRun(graph, LoweredProgram(groups, activities, 0), recorder.result())


def _collectives(program: Program) -> IntArray:
    found = [task for task, work in enumerate(program.work) if isinstance(work, CollectiveCall)]
    return np.array(found, dtype=np.int64)


def _meetings(graph: TaskGraph) -> Iterator[tuple[str, list[_Place]]]:
    """The n-th calls of all members of each instance of each communicator."""
    for call in sequenced_calls(graph):
        places: dict[int, list[_Place]] = {}
        for caller in call.callers:
            own = call.instance[graph.programs[caller.program].ranks]
            for instance in np.unique(own[own >= 0]).tolist():
                columns = np.flatnonzero(own == instance)
                places.setdefault(instance, []).append(_Place(caller.program, caller.task, columns))
        for instance, found in places.items():
            label = graph.programs[found[0].group].names[found[0].task]
            yield (label if len(places) == 1 else f"{label} [{call.call.communicator} {instance}]"), found


def _close(place: _Place, tail: int, start: IntArray, end: IntArray, end_ps: int) -> None:
    """End a collective for all members together; what a member took longer is its tail, the next on its stream."""
    end[place.task, place.columns] = end_ps
    start[tail, place.columns] = end_ps
    end[tail, place.columns] = np.maximum(end[tail, place.columns], end_ps)


def _after(program: Program) -> IntArray:
    """The task after each on its stream, -1 for the last ``[T]``."""
    before = _before(program)
    after = np.full(program.task_count, -1, dtype=np.int64)
    after[before[before >= 0]] = np.flatnonzero(before >= 0)
    return after


def _before(program: Program) -> IntArray:
    """The task before each on its stream, -1 for the first ``[T]``."""
    order = np.argsort(program.stream_of, kind="stable")
    same = program.stream_of[order][1:] == program.stream_of[order][:-1]
    before = np.full(program.task_count, -1, dtype=np.int64)
    before[order[1:][same]] = order[:-1][same]
    return before


def _lowered(program: Program, tasks: IntArray, start: IntArray, end: IntArray, instances: IntArray) -> LoweredGroup:
    """Durations of private tasks: from the end of the last input; tasks without one start at 0."""
    before = _before(program)
    known = np.where(before[:, None] >= 0, end[before], 0)
    waiting = np.repeat(np.arange(program.task_count), np.diff(program.dep_ptr))
    np.maximum.at(known, waiting, end[program.dep_task])
    start[(before < 0) & (np.diff(program.dep_ptr) == 0)] = 0
    durations = np.maximum(end - known, 0)
    durations[tasks] = 0
    return LoweredGroup.of(program, ConstantDurations(durations), tasks, instances)


def _times(tasks: IntArray, start: IntArray, end: IntArray, instances: IntArray, last_of: IntArray) -> GroupTimes:
    waiting = np.zeros_like(instances)
    inside = instances >= 0
    waiting[inside] = last_of[instances[inside]] - start[tasks][inside]
    return GroupTimes.of_ranks(start, end, tasks, waiting)
