"""Ranks that are late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from inputs.errors import InputError
from simulator.collective_calls import CollectiveCall
from simulator.lowered import PS_PER_S
from simulator.program import IntArray, Program
from traces.replay.job import UNKNOWN, ReplayJob, TaskOffset


def delayed(job: ReplayJob, delays_s: Mapping[int, float]) -> ReplayJob:
    """The job with some ranks late: their main thread takes so much longer at the beginning of each step.

    Where the trace has no steps, or no host, the work that waits for nothing begins later, once.

    Raises:
        InputError: a rank has no program in the job, or nothing in it can be late.
    """
    durations = [own.copy() for own in job.durations_ps]
    for rank, delay_s in delays_s.items():
        try:
            number, column = job.place_of(rank)
        except KeyError:
            expected = f"one of {', '.join(map(str, job.ranks[:8].tolist()))}"
            raise InputError("no such rank in the job", file="--delay", given=rank, expected=expected) from None
        program = job.graph.programs[number]
        begins = [step.begin for step in job.steps if step.rank == rank]
        late = {_next(program, place) for place in begins} if begins else set(_first(program).tolist())
        late = {task for task in late if not isinstance(program.work[task], CollectiveCall)}
        tasks = np.array(sorted(late), dtype=np.int64)
        if not len(tasks) or np.any(durations[number][tasks, column] == UNKNOWN):
            raise InputError(
                "the trace has no times to add a delay to", file="--delay", given=rank, expected="traces with times"
            )
        durations[number][tasks, column] += round(delay_s * PS_PER_S)
    return replace(job, durations_ps=tuple(durations))


def _next(program: Program, place: TaskOffset) -> int:
    """The first task of the stream of a place that begins at or after it."""
    if not place.at_end:
        return place.task
    later = np.flatnonzero(program.stream_of[place.task + 1 :] == program.stream_of[place.task])
    return place.task + 1 + int(later[0]) if len(later) else place.task


def _first(program: Program) -> IntArray:
    """Tasks that wait for nothing."""
    on_stream = np.unique(program.stream_of, return_index=True)[1]
    free: IntArray = on_stream[np.diff(program.dep_ptr)[on_stream] == 0]
    return free
