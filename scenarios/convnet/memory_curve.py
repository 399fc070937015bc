"""Device memory of blocks over an iteration, from the times of a run."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.counted_run import counted_run
from simulator.engine import RunOptions
from simulator.lowered import PS_PER_S
from simulator.lowering import Machine, lower
from workloads.convnet.out_of_core import OutOfCore
from workloads.convnet.swap_schedule import KERNELS, STREAM_OF
from workloads.convnet.swapping_pass import recorded


@dataclass(frozen=True, slots=True)
class Moment:
    """A change of the memory in use.

    Attributes:
        seconds: time since the beginning of the iteration, seconds.
        bytes: memory in use after the change.
        step: name of the step that takes or frees memory.
    """

    seconds: float
    bytes: float
    step: str


def memory_curve(job: OutOfCore, machine: Machine) -> tuple[Moment, ...]:
    """Memory of the first rank over the first iteration, in the order of time.

    A step takes its memory when its first task begins, and frees memory when its last task ends.
    """
    graph, ends = recorded(job)
    result = counted_run(lower(graph, machine).program, RunOptions(max_iterations=1, keep_last=1))
    times, program = result.records[0].groups[0], graph.programs[0]
    names = [stream.name for stream in program.streams]
    kernels = [task for task in range(program.task_count) if names[program.stream_of[task]] == KERNELS]
    changes: list[tuple[int, int, float, str]] = []
    done = -1
    for step in job.schedule.steps:
        first = last = ends[step]
        if STREAM_OF[step[0]] == KERNELS:
            first, done = next(task for task in kernels if task > done), last
        words = f"{step[0].replace('_', ' ')} {job.blocks[step[1]].last}"
        taken, freed = job.schedule.takes_bytes(step), job.schedule.frees_bytes(step)
        changes.append((int(times.start_ps[first, 0]), 1, taken, words))
        changes.append((int(times.end_ps[last, 0]), 0, -freed, words))
    found, held = [], 0.0
    for moment_ps, _, change, words in sorted(changes):  # at equal times, frees come before allocations
        held += change
        if change:
            found.append(Moment(moment_ps / PS_PER_S, held, words))
    return tuple(found)
