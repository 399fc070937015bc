"""How long kernels of ranks on CPUs take as a measurement tells it, on the average over iterations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulator.compute import CpuModel
from simulator.lowered import is_other
from simulator.lowering.cores import paces
from simulator.operators import CollectiveCall, FloatArray, HostWork
from simulator.program import IntArray, Program
from validation.together import lookups_beside


def in_kernels_s(
    program: Program,
    compute: object,
    start_ps: IntArray,
    end_ps: IntArray,
    moving_s: Mapping[str, float],
    iteration: int = 0,
) -> FloatArray:
    """How long each task takes as it is told of a measurement, on the average over iterations ``[T, P]``, seconds.

    On CPUs that is not what the simulation shows of one iteration:

    - A call that issues a collective is over for the thread that makes it when it has its core again: a part of what
      the rank is interrupted for in the iteration counts for calls, as much of all kernels.
    - What interrupts a rank that takes turns hits one kernel in an iteration, another in the next: it counts for all
      between two waits, in proportion to their work. (Waits are tasks of their own, which end when the rank has its
      core again: `workloads.dlrm.iteration.host_waits`.) So does what threads take of the core of a rank that issues a
      collective. But a part of both hits what the rank does right after the call.
    - Lookups beside those of other ranks (`validation.together`) are interrupted by nobody.

    Args:
        program: T tasks of P ranks.
        compute: the model of their kernels.
        start_ps: when tasks start in an iteration ``[T, P]``.
        end_ps: when they end ``[T, P]``.
        moving_s: for how long the data of each collective are under way alone, by task, seconds.
        iteration: number of the iteration.
    """
    seconds = np.asarray((end_ps - start_ps) / 1e12)
    if not isinstance(compute, CpuModel):
        return seconds
    core_of = compute.core_group_of(program.ranks)  # measurements are on one node
    needed_s = np.zeros(seconds.shape)
    for task, work in enumerate(program.work):
        if not isinstance(work, CollectiveCall):
            needed_s[task] = np.asarray(compute.duration_s(work), dtype=np.float64)
    spread = compute.pace_spread(float(needed_s.mean(axis=1).sum()), compute.threads_s([*moving_s.values()]))
    needed_s *= paces(core_of, spread)[int(is_other(iteration))] * (1.0 + compute.kernels.system_share)
    together_s = lookups_beside(program, compute, start_ps, end_ps).longer_s
    interrupted_s = np.where(needed_s > 0.0, np.maximum(seconds - needed_s - together_s, 0.0), 0.0)
    calls_lost_s = {task: compute.kernels.call_lost(of, turns=compute.takes_turns) for task, of in moving_s.items()}
    lost_s = np.broadcast_to(_lost_by(program, calls_lost_s)[:, None], needed_s.shape)
    if compute.takes_turns:
        movable_s = interrupted_s
        lost_s = lost_s * _contended(program, core_of, needed_s, start_ps, end_ps)
        after_s = compute.kernels.shared_after_call_s
    else:
        movable_s = np.minimum(interrupted_s, compute.kernels.posting_s * _issued(program)[:, None])
        after_s = compute.kernels.after_call_s
    after_calls_s = np.broadcast_to(after_s * _issued(program)[:, None], needed_s.shape)
    moved_s = _moved(movable_s, needed_s, after_calls_s, _between_waits(program, start_ps, end_ps))
    return needed_s + together_s + (interrupted_s - movable_s + moved_s) * _left(interrupted_s, lost_s)


def _issued(program: Program) -> FloatArray:
    """Collectives that each task issues ``[T]``."""
    return np.array([work.collectives if isinstance(work, HostWork) else 0.0 for work in program.work])


def _lost_by(program: Program, calls_lost_s: Mapping[str, float]) -> FloatArray:
    """What each task that issues a collective loses at most ``[T]``, seconds."""
    found = np.zeros(program.task_count)
    for task, work in enumerate(program.work):
        if not isinstance(work, CollectiveCall):
            continue
        for before, _ in program.dependencies(task):
            issuing = program.work[before]
            if isinstance(issuing, HostWork) and np.any(np.asarray(issuing.collectives) > 0):
                found[before] += calls_lost_s.get(program.names[task], 0.0)
    return found


def _between_waits(program: Program, start_ps: IntArray, end_ps: IntArray) -> IntArray:
    """How often each rank has waited for a collective before each task ``[T, P]``."""
    ended, waits = np.zeros((2, len(program.streams), program.rank_count), dtype=np.int64)
    found = np.zeros(start_ps.shape, dtype=np.int64)
    for task, work in enumerate(program.work):
        if isinstance(work, CollectiveCall):
            continue
        stream = int(program.stream_of[task])
        if _waits(program, task):
            waits[stream] += start_ps[task] > ended[stream]
        found[task] = waits[stream]
        ended[stream] = end_ps[task]
    return found


def _waits(program: Program, task: int) -> bool:
    """Whether a task waits for a collective."""
    return any(isinstance(program.work[before], CollectiveCall) for before, _ in program.dependencies(task))


def _contended(
    program: Program, core_of: IntArray, needed_s: FloatArray, start_ps: IntArray, end_ps: IntArray
) -> FloatArray:
    """The part of an iteration in which others work on a rank's core ``[P]``."""
    own = np.array([not isinstance(work, CollectiveCall) for work in program.work])
    span_s = (end_ps[own].max(axis=0) - start_ps[own].min(axis=0)) / 1e12
    work_s = needed_s.sum(axis=0)
    on_core = np.bincount(core_of, weights=work_s)[core_of]
    return np.asarray(np.minimum(1.0, (on_core - work_s) / np.maximum(span_s, 1e-12)))


def _left(amounts: FloatArray, taken: FloatArray) -> FloatArray:
    """The part of each column's amounts ``[T, P]`` that is left ``[P]``, 0 to 1, when so much is taken ``[T, P]``."""
    whole = amounts.sum(axis=0)
    return np.asarray(1.0 - np.minimum(1.0, taken.sum(axis=0) / np.where(whole > 0.0, whole, 1.0)))


def _moved(amounts: FloatArray, weights: FloatArray, first: FloatArray, groups: IntArray) -> FloatArray:
    """Amounts of each column's groups, divided among their members: all ``[T, P]``.

    A member has what it has ``first``, or as much less as a group has less than its members have first; what is left
    they have by weight.
    """
    found = np.zeros(amounts.shape)
    for column in range(amounts.shape[1]):
        group = groups[:, column]
        there, asked, of_each = (np.bincount(group, weights=of[:, column]) for of in (amounts, first, weights))
        had = np.where(of_each > 0.0, np.minimum(there, asked), 0.0)
        part = had / np.where(asked > 0.0, asked, 1.0)
        share = (there - had) / np.where(of_each > 0.0, of_each, 1.0)
        found[:, column] = part[group] * first[:, column] + share[group] * weights[:, column]
    return found
