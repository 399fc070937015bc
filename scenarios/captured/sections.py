"""Sections of the summary about a captured job: its programs and amounts, its memory at the peak and over the step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from scenarios.captured.kernel_times import PricedByBytes, ProgramTimes
from scenarios.memory_curve import MemoryCurve
from simulator.operators import Attention, Convolution, Gemm, Interaction
from simulator.work import Operator
from workloads.captured.fusing import short_name
from workloads.captured.records import Collective, MemoryPeak, RankProgram, RecordedJob
from workloads.captured.settings import CapturedSettings

MOST_SAMPLES = 400
"""Points of the curve of memory: about as many as a chart has columns of pixels that differ."""

SHOWN_RANKS = 8
"""Captured ranks that a program lists."""


def job_section(settings: CapturedSettings, times: Sequence[ProgramTimes]) -> dict[str, Any]:
    """Programs, and amounts of the rank with most."""
    job = settings.job
    return {
        "source": job.source,
        "torch": job.torch,
        "programs": [_program(program) for program in job.programs],
        "tasks": sum(len(program.tasks) for program in job.programs),
        "product_flops_per_rank": max(_flops(program) for program in times),
        "collective_bytes_per_rank": _collective_bytes(job),
        "priced_by_bytes_share": PricedByBytes.of(times).share,
    }


def _program(program: RankProgram) -> dict[str, Any]:
    return {
        "ranks": len(program.ranks),
        "first_rank": program.ranks[0],
        "captured": list(program.captured[:SHOWN_RANKS]),
        "tasks": len(program.tasks),
        "streams": list(program.streams),
    }


def _flops(times: ProgramTimes) -> float:
    """Floating point operations of products, attention and convolutions of a rank."""
    return sum(_operator_flops(step.kernel) for step in times.steps if step.kernel is not None)


def _operator_flops(operator: Operator) -> float:
    if isinstance(operator, Gemm):
        return float(2.0 * operator.count * operator.m * operator.n * operator.k)
    return float(np.max(operator.flops)) if isinstance(operator, Attention | Convolution | Interaction) else 0.0


def _collective_bytes(job: RecordedJob) -> dict[str, float]:
    """Bytes of the collectives of a rank by operation, of the rank with most."""
    found: dict[str, float] = {}
    for program in job.programs:
        own: dict[str, float] = {}
        for task in program.tasks:
            work = job.works[task.work]
            if isinstance(work, Collective):
                own[work.op] = own.get(work.op, 0.0) + work.bytes
        found = {op: max(found.get(op, 0.0), own.get(op, 0.0)) for op in (*found, *own)}
    return found


def fullest(job: RecordedJob) -> RankProgram:
    """The program whose ranks have the largest peak of memory."""
    return max(job.programs, key=lambda program: sum(program.memory.peak.values()))


def peak_section(settings: CapturedSettings) -> dict[str, Any]:
    """Memory of the fullest rank at the peak of the step, without the framework's reserve."""
    job = settings.job
    program = fullest(job)
    return {
        "rank": program.ranks[0],
        "bytes": dict(program.memory.peak),
        "module": program.memory.module,
        "task": program.memory.task,
    }


def memory_curve(settings: CapturedSettings, capacity_bytes: float) -> MemoryCurve:
    """Memory of the fullest rank over the step, with the framework's reserve.

    Args:
        capacity_bytes: usable memory of a rank.
    """
    job = settings.job
    program = fullest(job)
    tasks, samples, at = _samples(program.memory)
    reserve = settings.framework.reserve_bytes.value
    return MemoryCurve(
        rank=program.ranks[0],
        ranks=len(program.ranks),
        tasks=tasks,
        names=[_task_name(job, program, task) for task in tasks],
        bytes={**samples, "framework reserve": [reserve] * len(tasks)},
        peak=at,
        module=program.memory.module,
        capacity_bytes=capacity_bytes,
    )


def _task_name(job: RecordedJob, program: RankProgram, number: int) -> str:
    if number >= len(program.tasks):
        return "end"
    task = program.tasks[number]
    module, operator = job.modules[task.module], short_name(job.operators[task.operator])
    return f"{module}.{operator}" if module else operator


def _samples(memory: MemoryPeak) -> tuple[list[int], dict[str, list[float]], int]:
    """Tasks, bytes by category, and the place of the peak: the fullest sample of each run of samples, with the peak."""
    names = list(dict.fromkeys((*memory.peak, *memory.bytes)))
    columns = {name: np.array(memory.bytes.get(name, np.zeros(len(memory.tasks)))) for name in names}
    totals = np.sum(list(columns.values()), axis=0) if memory.tasks else np.zeros(0)
    edges = np.linspace(0, len(memory.tasks), min(MOST_SAMPLES, len(memory.tasks)) + 1).astype(np.int64)
    kept = [int(low + totals[low:high].argmax()) for low, high in pairwise(edges.tolist())]
    before = [place for place in kept if memory.tasks[place] < memory.task]
    after = [place for place in kept if memory.tasks[place] > memory.task]
    tasks = [*(memory.tasks[p] for p in before), memory.task, *(memory.tasks[p] for p in after)]
    samples = {
        name: [*columns[name][before].tolist(), float(memory.peak.get(name, 0.0)), *columns[name][after].tolist()]
        for name in names
    }
    return tasks, samples, len(before)
