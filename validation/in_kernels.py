"""How long kernels of ranks on CPUs take as a measurement tells it, on the average over iterations."""

from __future__ import annotations

import numpy as np

from simulator.compute import CpuModel
from simulator.lowered import is_other
from simulator.lowering.cores import paces
from simulator.operators import CollectiveCall, FloatArray
from simulator.program import IntArray, Program


def in_kernels_s(
    program: Program, compute: object, start_ps: IntArray, end_ps: IntArray, iteration: int = 0
) -> FloatArray:
    """How long each task takes as it is told of a measurement, on the average over iterations ``[T, P]``, seconds.

    What a rank that takes turns on a core is interrupted for hits one kernel in an iteration, another in the next; the
    simulation shows one iteration. So it counts for all between two waits, in proportion to their work. (Waits are
    tasks of their own, which end when the rank has its core again: `workloads.host_waits`.)

    Args:
        program: T tasks of P ranks.
        compute: the model of their kernels.
        start_ps: when tasks start in an iteration ``[T, P]``.
        end_ps: when they end ``[T, P]``.
        iteration: number of the iteration.
    """
    seconds = np.asarray((end_ps - start_ps) / 1e12)
    if not isinstance(compute, CpuModel) or not compute.takes_turns:
        return seconds
    core_of = compute.core_group_of(program.ranks)  # measurements are on one node
    needed_s = np.zeros(seconds.shape)
    for task, work in enumerate(program.work):
        if not isinstance(work, CollectiveCall):
            needed_s[task] = np.asarray(compute.duration_s(work), dtype=np.float64)
    spread = compute.pace_spread(float(needed_s.mean(axis=1).sum()))
    needed_s *= paces(core_of, spread)[int(is_other(iteration))]
    later_s = np.maximum(seconds - needed_s, 0.0)
    between = _between_waits(program, start_ps, end_ps)
    return needed_s + _in_proportion(np.where(needed_s > 0.0, later_s, 0.0), needed_s, between)


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


def _in_proportion(amounts: FloatArray, weights: FloatArray, groups: IntArray) -> FloatArray:
    """Amounts of each column's groups ``[T, P]``, divided among their members by weight ``[T, P]``."""
    found = np.zeros(amounts.shape)
    for column in range(amounts.shape[1]):
        group = groups[:, column]
        of_each = np.bincount(group, weights=weights[:, column])
        share = np.bincount(group, weights=amounts[:, column]) / np.where(of_each > 0.0, of_each, 1.0)
        found[:, column] = share[group] * weights[:, column]
    return found
