"""How long kernels of ranks on CPUs take as a measurement tells it.

A call that issues a collective is over for the thread that makes it when it has its core again. What it lost the core
for in between, a trace tells of the call, the simulation of the kernels that follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from simulator.compute import CpuModel
from simulator.lowered import is_other
from simulator.lowering.cores import paces
from simulator.operators import CollectiveCall, FloatArray, HostWork
from simulator.program import IntArray, Program

SENT = 0.5
"""Of the time of a collective alone: its thread sends before it waits for what others send, which is as much."""


def in_kernels_s(
    program: Program,
    compute: object,
    start_ps: IntArray,
    end_ps: IntArray,
    alone_s: Mapping[str, float],
    iteration: int = 0,
) -> FloatArray:
    """How long each task takes as it is told of a measurement, on the average over iterations ``[T, P]``, seconds.

    On CPUs that is not what the simulation shows of one iteration:

    - The thread that does a collective has the core of the rank that issues it at once, until it has sent what it
      sends or its slice is over. That counts for no kernel of ranks with cores of their own.
    - What a rank that takes turns is interrupted for hits one kernel in an iteration, another in the next: it counts
      for all between two waits, in proportion to their work. (Waits are tasks of their own, which end when the rank
      has its core again: `workloads.host_waits`.)

    Args:
        program: T tasks of P ranks.
        compute: the model of their kernels.
        start_ps: when tasks start in an iteration ``[T, P]``.
        end_ps: when they end ``[T, P]``.
        alone_s: what collectives take on an idle machine, by task, seconds.
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
    spread = compute.pace_spread(float(needed_s.mean(axis=1).sum()))
    needed_s *= paces(core_of, spread)[int(is_other(iteration))]
    later_s = np.maximum(seconds - needed_s, 0.0)
    if compute.takes_turns:
        return _of_turns(program, start_ps, end_ps, needed_s, later_s)
    return seconds - _sent_s(program, compute, later_s, alone_s)


def _sent_s(program: Program, compute: CpuModel, later_s: FloatArray, alone_s: Mapping[str, float]) -> FloatArray:
    """What of the time that tasks take longer ``[T, P]`` collectives before them were sending, seconds."""
    most_s = compute.kernels.turn_s or math.inf
    left_s = np.zeros((len(program.streams), program.rank_count))
    issued_by: dict[int, float] = {}
    for task, work in enumerate(program.work):
        if isinstance(work, CollectiveCall):
            for before, _ in program.dependencies(task):
                issued_by[before] = issued_by.get(before, 0.0) + alone_s.get(program.names[task], 0.0)
    found = np.zeros(later_s.shape)
    for task, work in enumerate(program.work):
        if isinstance(work, CollectiveCall):
            continue
        left = left_s[int(program.stream_of[task])]
        if _waits(program, task):
            left[:] = 0.0
        found[task] = np.minimum(later_s[task], left)
        left -= found[task]
        if _issues(program, task):
            left += min(SENT * issued_by.get(task, 0.0), most_s)
    return found


def _of_turns(
    program: Program, start_ps: IntArray, end_ps: IntArray, needed_s: FloatArray, later_s: FloatArray
) -> FloatArray:
    """Times of tasks ``[T, P]`` of ranks that take turns, from what they need and take longer ``[T, P]``, seconds."""
    ended, waits = np.zeros((2, len(program.streams), program.rank_count), dtype=np.int64)
    between = np.zeros(needed_s.shape, np.int64)
    for task, work in enumerate(program.work):
        if isinstance(work, CollectiveCall):
            continue
        stream = int(program.stream_of[task])
        if _waits(program, task):
            waits[stream] += start_ps[task] > ended[stream]
        between[task] = waits[stream]
        ended[stream] = end_ps[task]
    return needed_s + _in_proportion(np.where(needed_s > 0.0, later_s, 0.0), needed_s, between)


def _waits(program: Program, task: int) -> bool:
    """Whether a task waits for a collective."""
    return any(isinstance(program.work[before], CollectiveCall) for before, _ in program.dependencies(task))


def _issues(program: Program, task: int) -> bool:
    """Whether a task issues a collective."""
    work = program.work[task]
    return isinstance(work, HostWork) and work.collectives > 0


def _in_proportion(amounts: FloatArray, weights: FloatArray, groups: IntArray) -> FloatArray:
    """Amounts of each column's groups ``[T, P]``, divided among their members by weight ``[T, P]``."""
    found = np.zeros(amounts.shape)
    for column in range(amounts.shape[1]):
        group = groups[:, column]
        of_each = np.bincount(group, weights=weights[:, column])
        share = np.bincount(group, weights=amounts[:, column]) / np.where(of_each > 0.0, of_each, 1.0)
        found[:, column] = share[group] * weights[:, column]
    return found
