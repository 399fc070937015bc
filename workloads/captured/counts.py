"""Amounts of a captured job, without times: operations, bytes of collectives, peak of memory, unknown operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from workloads.captured.records import (
    AttentionWork,
    Collective,
    ConvolutionWork,
    Moved,
    Product,
    RankProgram,
    RecordedJob,
    RecordedWork,
)


def flops_of(work: RecordedWork) -> float:
    """Floating point operations of products, attention and convolutions, 2 for each product of numbers."""
    if isinstance(work, Product):
        return 2.0 * work.m * work.n * work.k * work.count
    if isinstance(work, AttentionWork):
        return work.flops
    if isinstance(work, ConvolutionWork):
        height, width, channels = work.outputs
        of_output = work.kernel[0] * work.kernel[1] * work.inputs[2] // work.groups
        return 2.0 * work.images * height * width * channels * of_output
    return 0.0


def counts_of(job: RecordedJob) -> dict[str, Any]:
    """Amounts of a job as plain JSON values: of the rank with the most, where ranks differ."""
    programs = [_program(job, program) for program in job.programs]
    fullest = max(job.programs, key=lambda program: sum(program.memory.peak.values()))
    return {
        "source": job.source,
        "torch": job.torch,
        "world_size": job.world_size,
        "samples_per_rank": job.samples_per_rank,
        "programs": [
            {"ranks": len(program.ranks), "captured": list(program.captured), **found}
            for program, found in zip(job.programs, programs, strict=True)
        ],
        "flops": max(found["flops"] for found in programs),
        "collectives": _most(found["collectives"] for found in programs),
        "memory_peak": {
            "rank": fullest.ranks[0],
            "bytes": sum(fullest.memory.peak.values()),
            "categories": dict(fullest.memory.peak),
            "module": fullest.memory.module,
        },
        "priced_by_bytes": _priced_by_bytes(job),
    }


def _program(job: RecordedJob, program: RankProgram) -> dict[str, Any]:
    works = [job.works[task.work] for task in program.tasks]
    calls: dict[str, dict[str, float]] = {}
    for work in works:
        if isinstance(work, Collective):
            of_op = calls.setdefault(work.op, {"calls": 0, "bytes": 0.0})
            of_op["calls"] += 1
            of_op["bytes"] += work.bytes
    return {"tasks": len(works), "flops": sum(map(flops_of, works)), "collectives": calls}


def _most(of_programs: Iterator[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Calls and bytes of each operation, from the program with the most bytes of it."""
    found: dict[str, dict[str, float]] = {}
    for calls in of_programs:
        for op, amounts in calls.items():
            if op not in found or amounts["bytes"] > found[op]["bytes"]:
                found[op] = dict(amounts)
    return found


def _priced_by_bytes(job: RecordedJob) -> dict[str, int]:
    """Operators priced by their bytes alone, with their number over all programs, most frequent first."""
    found: Counter[str] = Counter()
    for program in job.programs:
        for task in program.tasks:
            work = job.works[task.work]
            if isinstance(work, Moved) and work.priced_by_bytes:
                found[job.operators[task.operator]] += 1
    return dict(found.most_common())
