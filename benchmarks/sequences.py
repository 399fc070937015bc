"""Operations of a full sample of a model with sequences, by part, as its task graph has them.

Published figures count attention, UVQK and output of the layers, with nothing computed again but the scores. They leave
out MLPs before the layers, UVQK that the backward pass computes again, contextual positions, candidates, and the head.
Elementwise kernels have few operations and take time: the last row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from benchmarks.rows import Row
from scenarios.dlrm.plans import PlanningJob, plan_of
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulate
from simulator.operators import Attention, Elementwise, Gemm
from simulator.program import Program

SCENARIO = "mlperf_dlrm_v4_hstu"
FULL = ("workload.sequence_lengths.history={distribution: fixed}", "workload.global_batch_size=8", "world_size=8")
"""Settings with which every rank has one full sample."""

COUNTED = ("attention", "uvqk", "output")
"""Parts that published figures count."""

ELEMENTWISE = "elementwise kernels"
"""Row of the time of norms, gates, sums, casts and copies."""

OTHERS: Mapping[str, tuple[str, ...]] = {
    "UVQK again": ("_uvqk_again",),
    "MLPs of items and actions": ("content_", "additional_", "action_"),
    "contextual positions": ("context_",),
    "MLP of candidates": ("item_",),
    "head": ("top_",),
}
"""Parts of the names of tasks beside them."""


def rows() -> Iterator[Row]:
    """Rows of each part, sums of counted and of all parts, 1e9 operations of a training pass; share of elementwise."""
    found = gflop_by_part(SCENARIO)
    for part, gflop in found.items():
        yield Row(part, gflop, "GFLOP")
    yield Row("layers, as published", sum(found[part] for part in COUNTED), "GFLOP")
    yield Row("all", sum(found.values()), "GFLOP")
    yield Row(ELEMENTWISE, elementwise_pct(SCENARIO), "% of computation on the critical path")


def gflop_by_part(scenario: str) -> dict[str, float]:
    """Operations of a full sample by part, 1e9, of a scenario's model."""
    job = PlanningJob.of(load_scenario(scenario, FULL))
    program = job.workload(plan_of(job)).graph().programs[0]
    found = dict.fromkeys((*COUNTED, *OTHERS), 0.0)
    for name, flops in _operations(program):
        found[_part(name)] += flops / 1e9
    return found


def elementwise_pct(scenario: str) -> float:
    """Time of elementwise kernels on the critical path of a scenario as it is, per cent of all computation there."""
    path = simulate(load_scenario(scenario), Silent()).summary["critical_path"]
    return 100.0 * float(path["by_operator_s"][Elementwise.__name__]) / float(path["by_category_s"]["compute"])


def _operations(program: Program) -> Iterator[tuple[str, float]]:
    """Names and operations of the tasks of the first rank that multiply."""
    for name, work in zip(program.names, program.work, strict=True):
        if isinstance(work, Attention):
            yield name, float(np.ravel(work.flops)[0])
        elif isinstance(work, Gemm):
            yield name, float(np.ravel(2.0 * np.asarray(work.m) * work.n * work.k * work.count)[0])


def _part(name: str) -> str:
    """Part of a task that multiplies."""
    other = next((part for part, names in OTHERS.items() if any(found in name for found in names)), None)
    return other or next(part for part in COUNTED if f"_{part}" in name)
