"""A measured run: a task graph with the times of a trace, in the shape of a simulated run.

One pass through the whole trace is one iteration of the program, the profiler's steps are windows of it. So every
analysis and every page of a simulated run serves a measured one, and the engine can run the program again: its private
tasks last what is left of the measured time after their last input, its collectives what passed between the last
arrival and the first member's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.engine import ActivityTimes, GroupTimes, IterationRecord, RunResult
from simulator.engine.records import Recorder
from simulator.lowered import Activity, ConstantDurations, LoweredGroup, LoweredProgram, phase
from simulator.operators import CollectiveCall
from simulator.program import IntArray, Program, TaskGraph
from traces.merge import Merged


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A trace as a run.

    Attributes:
        graph: the programs of the ranks that have a trace.
        lowered: the same with measured durations: what the engine runs to replay the trace.
        result: the times as measured, one recorded iteration.
    """

    graph: TaskGraph
    lowered: LoweredProgram
    result: RunResult


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
    for program, start in zip(graph.programs, starts, strict=True):
        start[_without_inputs(program)] = 0
    instances = [np.full((len(_collectives(p)), p.rank_count), -1, dtype=np.int64) for p in graph.programs]
    activities: list[Activity] = []
    last_ps, end_ps = [], []
    for label, places in _meetings(graph):
        last = max(int(starts[p.group][p.task, p.columns].max()) for p in places)
        end = max(min(int(ends[p.group][p.task, p.columns].min()) for p in places), last)
        for place in places:
            row = _collectives(graph.programs[place.group]).index(place.task)
            instances[place.group][row, place.columns] = len(activities)
            _close(place, starts[place.group], ends[place.group], end)
        activities.append(Activity(label, (phase(latency_ps=end - last),)))
        last_ps.append(last)
        end_ps.append(end)
    last_of, end_of = np.array(last_ps, dtype=np.int64), np.array(end_ps, dtype=np.int64)
    groups, times = [], []
    for number, program in enumerate(graph.programs):
        groups.append(_lowered(program, starts[number], ends[number], instances[number]))
        times.append(_times(program, starts[number], ends[number], instances[number], last_of))
    recorder = Recorder(np.concatenate([p.ranks for p in graph.programs]), None)
    recorder.add(IterationRecord(0, tuple(times), ActivityTimes(last_of, end_of)))
    return MeasuredRun(graph, LoweredProgram(tuple(groups), activities, 0), recorder.result())


def _collectives(program: Program) -> list[int]:
    return [task for task, work in enumerate(program.work) if isinstance(work, CollectiveCall)]


def _meetings(graph: TaskGraph) -> Iterator[tuple[str, list[_Place]]]:
    """The n-th calls of all members of each instance of each communicator."""
    for name, instance_of in graph.communicators.items():
        calls = [[t for t in _collectives(p) if p.work[t].communicator == name] for p in graph.programs]  # type: ignore[union-attr]
        for number in range(max((len(tasks) for tasks in calls), default=0)):
            places: dict[int, list[_Place]] = {}
            for group, (program, tasks) in enumerate(zip(graph.programs, calls, strict=True)):
                own = instance_of[program.ranks]
                for instance in np.unique(own[own >= 0]).tolist() if number < len(tasks) else ():
                    columns = np.flatnonzero(own == instance)
                    places.setdefault(instance, []).append(_Place(group, tasks[number], columns))
            for instance, found in places.items():
                label = graph.programs[found[0].group].names[found[0].task]
                yield (label if len(places) == 1 else f"{label} [{name} {instance}]"), found


def _close(place: _Place, start: IntArray, end: IntArray, end_ps: int) -> None:
    """End a collective for all members together; what a member took longer is its tail, the next task."""
    tail = place.task + 1
    end[place.task, place.columns] = end_ps
    start[tail, place.columns] = end_ps
    end[tail, place.columns] = np.maximum(end[tail, place.columns], end_ps)


def _inputs(program: Program) -> list[list[int]]:
    """Dependencies and the task before on the stream ``[T]``."""
    last: dict[int, int] = {}
    inputs = []
    for task, stream in enumerate(program.stream_of.tolist()):
        before = [last[stream]] if stream in last else []
        inputs.append(before + [dep for dep, _ in program.dependencies(task)])
        last[stream] = task
    return inputs


def _without_inputs(program: Program) -> list[int]:
    return [task for task, inputs in enumerate(_inputs(program)) if not inputs]


def _lowered(program: Program, start: IntArray, end: IntArray, instances: IntArray) -> LoweredGroup:
    known = np.zeros_like(start)
    for task, inputs in enumerate(_inputs(program)):
        for before in inputs:
            np.maximum(known[task], end[before], out=known[task])
    durations = np.maximum(end - known, 0)
    tasks = np.array(_collectives(program), dtype=np.int64)
    durations[tasks] = 0
    return LoweredGroup(
        name=program.name,
        ranks=program.ranks,
        streams=program.streams,
        names=program.names,
        stream_of=program.stream_of,
        dep_ptr=program.dep_ptr,
        dep_task=program.dep_task,
        dep_lag=program.dep_lag,
        durations=ConstantDurations(durations),
        activity_tasks=tasks,
        instances=instances,
    )


def _times(program: Program, start: IntArray, end: IntArray, instances: IntArray, last_of: IntArray) -> GroupTimes:
    tasks = np.array(_collectives(program), dtype=np.int64)
    waiting = np.where(instances >= 0, last_of[instances] - start[tasks], 0) if len(tasks) else np.zeros((0, program.rank_count), dtype=np.int64)
    return GroupTimes(start, end, tasks, waiting)
