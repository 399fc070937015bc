"""Prediction of a training job on CPUs in the terms of a measurement: iteration, operator classes, collectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hardware_specs.cpu_kernels import KernelClass
from hardware_specs.types import Cluster
from scenarios.bursts import steady_rule
from scenarios.engine_run import run_options, variation_of
from scenarios.located import located
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Progress, Silent
from scenarios.resolved import ResolvedScenario
from simulator.analysis import iteration_time
from simulator.collective_calls import CollectiveCall
from simulator.compute import ComputeModel, CpuModel
from simulator.compute.cpu_amounts import class_of
from simulator.counted_run import counted_run
from simulator.engine import EngineRun
from simulator.lowering import lower
from simulator.operators import FloatArray, HostWork, Marker
from simulator.program import Program
from simulator.work import Work
from validation.host.measurement import CLASSES, Bar, Times

CLASS_OF: Mapping[KernelClass, str] = {
    "lookup": "embedding_forward", "update": "embedding_update", "gemm": "gemm", "batched": "gemm",
}  # fmt: skip
"""Operator class (`validation.host.measurement.CLASSES`) of each kind of kernel; ``rest`` for all others."""


def predict(resolved: ResolvedScenario, progress: Progress | None = None) -> Times:
    """Simulate a scenario on CPUs.

    Raises:
        InputError: the models refuse the scenario.
    """
    return predict_prepared(prepare(resolved, progress or Silent()))


def predict_prepared(prepared: Prepared) -> Times:
    """Simulate a scenario on CPUs whose plan and task graph exist; errors as `predict`."""
    with located(prepared.resolved.document):
        lowering = lower(prepared.graph, prepared.machine, variation=variation_of(prepared.resolved))
        result = counted_run(
            lowering.program, run_options(prepared.resolved, prepared.machine, prepared.graph, keep_last=1)
        )
    ends_ps = result.iteration_end_ps.tolist()
    iteration_s = iteration_time(ends_ps, steady_rule(prepared.resolved, prepared.machine, prepared.graph)).seconds
    (program,), compute = prepared.graph.programs, prepared.machine.compute
    times = result.records[-1].groups[0]
    seconds = ((times.end_ps - times.start_ps) / 1e12).mean(axis=1)
    classes = dict.fromkeys(CLASSES, 0.0)
    collectives: dict[str, float] = {}
    for task, work in enumerate(program.work):
        if isinstance(work, CollectiveCall):
            collectives[work.op] = collectives.get(work.op, 0.0) + float(seconds[task])
        elif not isinstance(work, Marker):
            classes[operator_class(work)] += float(seconds[task]) * (1.0 - _issuing_share(compute, work))
    classes["collectives"] = max(0.0, iteration_s - sum(classes.values()))
    return Times(
        iteration_s,
        classes,
        float(ranks_alone_s(prepared).mean()),
        collectives,
        [_bars(program, result, rank) for rank in range(program.rank_count)],
        compute.kernels.yardstick_s if isinstance(compute, CpuModel) else None,
    )


def _issuing_share(compute: ComputeModel, work: Work) -> float:
    """Fraction of a task that issues collectives and posts their messages; a measurement counts it as collectives."""
    if not isinstance(work, HostWork) or not isinstance(compute, CpuModel):
        return 0.0
    alone_s = float(np.mean(compute.duration_s(work)))
    posting_s = float(np.mean(work.collectives)) * compute.kernels.posting_s
    return (compute.issuing_share(work) * alone_s + posting_s) / (alone_s + posting_s) if alone_s + posting_s else 0.0


def with_kernels_of(prepared: Prepared, cluster: Cluster) -> Prepared:
    """A job on CPUs with the kernels of a cluster that differs in nothing else; its task graph is the same."""
    compute = prepared.machine.compute
    if not isinstance(compute, CpuModel):
        raise TypeError("only CPUs have fitted kernels")
    machine = replace(prepared.machine, compute=CpuModel.of(cluster.node, compute.local_world_size))
    return replace(prepared, machine=machine)


def ranks_alone_s(prepared: Prepared) -> FloatArray:
    """CPU time of each rank's own thread per iteration if nothing else uses its core ``[P]``, seconds."""
    (program,), compute = prepared.graph.programs, prepared.machine.compute
    works = (work for work in program.work if not isinstance(work, CollectiveCall))
    return sum(
        (compute.duration_s(work) + np.zeros(program.rank_count) for work in works), np.zeros(program.rank_count)
    )


def operator_class(work: Work) -> str:
    """Operator class of a task."""
    kernel = None if isinstance(work, CollectiveCall | Marker) else class_of(work)
    return "rest" if kernel is None else CLASS_OF.get(kernel, "rest")


def _bars(program: Program, result: EngineRun, rank: int) -> list[Bar]:
    times = result.records[-1].groups[0]
    start, end = times.start_ps[:, rank], times.end_ps[:, rank]
    begin = int(start.min())
    return [
        Bar(
            lane="collectives" if isinstance(work, CollectiveCall) else "host",
            begin_s=(int(start[task]) - begin) / 1e12,
            end_s=(int(end[task]) - begin) / 1e12,
            kind="collectives" if isinstance(work, CollectiveCall) else operator_class(work),
            name=program.names[task],
        )
        for task, work in enumerate(program.work)
        if end[task] > start[task]
    ]
