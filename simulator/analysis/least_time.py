"""Lower bound of the iteration time of a lowered program, without a run.

The result is the largest of three lower bounds. Every activity takes at least the time that it takes alone:

- the work of all activities of an iteration on a resource over the capacity of the resource;
- a chain of tasks of a rank that the next iterations repeat: ``v`` of iteration i + k starts after ``u`` of iteration
  i, and the chain from ``v`` to ``u`` of iteration i takes its time;
- the tasks of an in-order stream: a chain of the same kind, because the next iteration follows the last task.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.lowered import PS_PER_S, Activity, LoweredGroup, LoweredProgram
from simulator.operators import FloatArray
from simulator.program import IntArray

MOST_RANKS = 16
"""Largest number of ranks of a group with a search of chains: the ranks with most work on a stream."""


def least_iteration_s(program: LoweredProgram) -> float:
    """Lower bound of the iteration time, seconds; 0 if durations differ between iterations."""
    if program.varies:
        return 0.0
    alone = np.array([_alone_ps(activity) for activity in program.activities] + [0.0])
    most = float(_resources_ps(program).max(initial=0.0))
    for group in program.groups:
        most = max(most, _chains_ps(group, _tasks_ps(group, alone)))
    return most / PS_PER_S


def _resources_ps(program: LoweredProgram) -> FloatArray:
    """Work of an iteration on each resource at its whole capacity ``[L]``."""
    found = np.zeros(program.resource_count)
    fused = {int(number) for calls in program.fused.values() for number in calls.activities}
    for number, activity in enumerate(program.activities):
        if number in fused:  # the run decides which calls are made
            continue
        for phase in activity.phases:
            np.add.at(found, phase.resources, phase.work_ps * phase.usage)
    return found


def _alone_ps(activity: Activity) -> float:
    """Time of an activity alone, up to the first member's release, picoseconds."""
    phases = activity.phases
    if activity.release_phase is not None:
        phases = phases[: int(activity.release_phase.min()) + 1]
    return float(sum(phase.latency_ps + phase.work_ps for phase in phases))


def _tasks_ps(group: LoweredGroup, alone: FloatArray) -> FloatArray:
    """Least times of tasks ``[T, P]``, picoseconds, for the ranks with most work on any stream."""
    times = np.broadcast_to(group.durations.at(0), (group.task_count, group.rank_count)).astype(np.float64)
    times[group.activity_tasks] = alone[group.instances]
    work = np.array([times[group.stream_of == stream].sum(axis=0) for stream in range(len(group.streams))])
    ranks = np.argsort(-work, axis=1, kind="stable")[:, : max(MOST_RANKS // max(len(work), 1), 1)]
    return np.asarray(times[:, np.unique(ranks)])


def _chains_ps(group: LoweredGroup, times: FloatArray) -> float:
    """Longest time per iteration of a chain that later iterations repeat, picoseconds."""
    before, back = _order(group)
    starts = {start: place for place, start in enumerate(sorted({start for _, start, _ in back}))}
    longest = np.full((group.task_count, len(starts), times.shape[1]), -np.inf)
    for task in _sorted(before):
        for other in before[task]:
            np.maximum(longest[task], longest[other], out=longest[task])
        if task in starts:
            np.maximum(longest[task, starts[task]], 0.0, out=longest[task, starts[task]])
        longest[task] += times[task]
    return max((float(longest[end, starts[start]].max()) / lag for end, start, lag in back), default=0.0)


def _order(group: LoweredGroup) -> tuple[list[list[int]], list[tuple[int, int, int]]]:
    """Tasks of the same iteration before each task; and (task, task of a later iteration, iterations between them)."""
    before: list[list[int]] = [[] for _ in range(group.task_count)]
    back: list[tuple[int, int, int]] = []
    for task in range(group.task_count):
        for entry in range(int(group.dep_ptr[task]), int(group.dep_ptr[task + 1])):
            on, lag = int(group.dep_task[entry]), int(group.dep_lag[entry])
            if lag:
                back.append((on, task, lag))
            else:
                before[task].append(on)
    for number, stream in enumerate(group.streams):
        tasks: IntArray = np.flatnonzero(group.stream_of == number)
        if stream.in_order and len(tasks):
            for one, other in zip(tasks[:-1].tolist(), tasks[1:].tolist(), strict=True):
                before[other].append(one)
            back.append((int(tasks[-1]), int(tasks[0]), 1))
    return before, back


def _sorted(before: list[list[int]]) -> Iterator[int]:
    """Tasks in an order that respects dependencies."""
    after: list[list[int]] = [[] for _ in before]
    open_ = [len(tasks) for tasks in before]
    for task, tasks in enumerate(before):
        for other in tasks:
            after[other].append(task)
    ready = [task for task, count in enumerate(open_) if count == 0]
    while ready:
        task = ready.pop()
        yield task
        for other in after[task]:
            open_[other] -= 1
            if open_[other] == 0:
                ready.append(other)
