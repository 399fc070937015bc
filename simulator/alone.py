"""Iterations as they would be if nothing shared a link, and every rank were as slow as the slowest one.

The estimate takes the durations that lowering has found, in a program of a single rank: a task lasts as long as on the
slowest rank, a collective as long as its slowest instance on an idle machine. Streams and dependencies stay, so it
has the overlap that a plan allows, but no traffic that slows other traffic: an iteration lasts at least as long, too,
as the busiest resource has work.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.counted_run import counted_run
from simulator.engine import RunOptions
from simulator.lowered import (
    PS_PER_S,
    Activity,
    ConstantDurations,
    LoweredGroup,
    LoweredProgram,
    longest_ps,
    phase,
)
from simulator.operators import FloatArray
from simulator.program import IntArray

ITERATIONS = 6
"""Iterations of an estimate: more than the batches that a pipeline has in flight, so that the last is steady."""


def alone_s(program: LoweredProgram) -> float:
    """Seconds of an iteration of a lowered program, see the module."""
    alone_ps = np.array([sum(part.latency_ps + part.work_ps for part in each.phases) for each in program.activities])
    groups, activities = list[LoweredGroup](), list[Activity]()
    for group in program.groups:
        longest = _longest(group, alone_ps)
        rows = len(activities) + np.arange(len(longest))[:, None]
        activities += [
            Activity(str(number), (phase(int(value)),)) for number, value in enumerate(longest, len(activities))
        ]
        slowest = ConstantDurations(longest_ps(group.durations)[:, None])
        groups.append(replace(group, ranks=group.ranks[:1], durations=slowest, instances=rows))
    ends_ps = counted_run(LoweredProgram(tuple(groups), activities, 0), RunOptions(max_iterations=ITERATIONS))
    last = ends_ps.iteration_end_ps[-2:]
    return max(float(last[1] - last[0]), float(_busy_ps(program).max(initial=0.0))) / PS_PER_S


def _longest(group: LoweredGroup, alone_ps: IntArray) -> IntArray:
    """Time of the slowest instance of each activity task of a group ``[A]``."""
    if not group.instances.size:
        return np.zeros(len(group.activity_tasks), dtype=np.int64)
    found = np.where(group.instances >= 0, alone_ps[np.maximum(group.instances, 0)], 0).max(axis=1)
    return np.asarray(found, dtype=np.int64)


def _busy_ps(program: LoweredProgram) -> FloatArray:
    """Time for which each resource has work in an iteration ``[L]``."""
    busy = np.zeros(program.resource_count)
    for activity in program.activities:
        for part in activity.phases:
            busy[part.resources] += part.work_ps * part.usage
    return busy
