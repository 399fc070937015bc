"""The interval of a run's iteration time: no further runs, only what the run and the search for its bound found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scenarios.prepare import Prepared
from scenarios.uncertainty.constant import Constant, graded
from scenarios.uncertainty.framework import framework_constants, residual_of
from scenarios.uncertainty.inputs_of_jobs import UncertainJob
from scenarios.uncertainty.interval import COLLECTIVES, Interval, elasticities, interval, sources_of
from scenarios.uncertainty.machine import (
    ATTENTION,
    CONVOLUTION,
    EMBEDDING,
    NODE,
    STREAMS,
    Weighted,
    machine_constants,
    version_of,
)
from scenarios.uncertainty.shares import measured_nodes
from scenarios.uncertainty.shipped import JOB_GROUPS, shipped_quantiles
from scenarios.uncertainty.usage import CallUse, Usage
from simulator.analysis import Analysis, Bound
from simulator.lowered import PS_PER_S
from simulator.lowering import Lowering
from simulator.operators import Attention, Delay, EmbeddingUpdate, HostWork
from simulator.program import TaskGraph
from simulator.work import KernelSeries

MODEL_FORM = Constant("simulator", "derived", 0.04, "what the models of kernels and links leave out")
"""Part of every time that no constant stands for: median error of predictions whose constants were all measured."""


def interval_of_run(prepared: Prepared, lowering: Lowering, analysis: Analysis, bound: Bound) -> Interval:
    """The interval of the iteration time."""
    resolved, usage = prepared.resolved, usage_of(prepared, lowering, analysis)
    cluster, framework = resolved.cluster, resolved.framework
    to_class = elasticities(bound.iteration_time_s, bound.gains)
    constants = machine_constants(cluster, prepared.machine.collectives.calibration, usage)
    collectives = sum(to_class.get(name, 0.0) for name in COLLECTIVES)
    common = [
        (_fitted_share(prepared, analysis), residual_of(framework, cluster.node.gpu, resolved.nodes)),
        (1.0, MODEL_FORM),
        (collectives, version_of(cluster, usage.calls)),
        *_serial_rows(prepared, analysis),
        *(prepared.job.uncertain_inputs() if isinstance(prepared.job, UncertainJob) else ()),
    ]
    sources = sources_of(to_class, _together(constants, framework_constants(framework, usage)), common)
    name = group_of_job(resolved.nodes, measured_nodes(cluster))
    return interval(analysis.iteration.seconds, sources, name, shipped_quantiles()[name])


def group_of_job(nodes: int, measured: int) -> str:
    """Group of a job on so many nodes of a machine whose collectives were measured on so many."""
    one, within, beyond = JOB_GROUPS
    return one if nodes == 1 else within if nodes <= measured else beyond


def usage_of(prepared: Prepared, lowering: Lowering, analysis: Analysis) -> Usage:
    """Use of the machine by a run."""
    calls = [
        CallUse(i.op, i.members, i.nodes, i.bytes, i.alone_s, i.algorithm, i.straight)
        for i in lowering.collectives
        if i.members > 1
    ]
    kernels = {"Gemm", ATTENTION, CONVOLUTION, *EMBEDDING, *STREAMS}
    on_path = analysis.critical_path.by_operator_ps()
    work = [each for program in prepared.graph.programs for each in program.work]
    return Usage(
        calls,
        {name: ps / PS_PER_S for name, ps in on_path.items() if name in kernels},
        str(prepared.resolved.scenario.precision.dense),
        _host_s(prepared, prepared.graph),
        pointwise=any(isinstance(each, Attention) and each.pointwise for each in work),
    )


def _fitted_share(prepared: Prepared, analysis: Analysis) -> float:
    """Part of the iteration that fits of frameworks say something of: all, but for kernels that come in series.

    These rest on rates of the GPU alone; the fitted iterations had none of them, and no factor of a profile is on them.
    """
    if not any(isinstance(work, KernelSeries) for program in prepared.graph.programs for work in program.work):
        return 1.0
    path = analysis.critical_path
    return 1.0 - path.by_category_ps().get("compute", 0) / max(path.window.length_ps, 1)


def _serial_rows(prepared: Prepared, analysis: Analysis) -> Iterator[tuple[float, Constant]]:
    """The time of a row that one core of a socket updates, which is no rate of a class; none with other updates."""
    rates = prepared.resolved.cluster.node.cpu.rates
    work = (work for program in prepared.graph.programs for work in program.work)
    if rates is None or not any(isinstance(each, EmbeddingUpdate) and each.variant == "reference" for each in work):
        return
    path = analysis.critical_path
    share = path.by_operator_ps().get("EmbeddingUpdate", 0) / max(path.window.length_ps, 1)
    yield share, graded(f"{NODE}.cpu.rates.serial_row_s", rates.serial_row_s, "an EmbeddingBag's update on one core")


def _host_s(prepared: Prepared, graph: TaskGraph) -> dict[str, float]:
    """Seconds of an iteration by the framework's times: launches and operators, and waits of the device for them."""
    framework = prepared.resolved.framework
    launched = operators = waits = 0.0
    for program in graph.programs:
        share = program.rank_count / graph.world_size
        for work in program.work:
            if isinstance(work, HostWork):
                launched += share * work.launches * framework.launch_s.value
                operators += share * work.seconds
            waits += share if isinstance(work, Delay) else 0.0
    found = {"launch_s": launched, "operator_s": operators}
    if waits:
        found |= {"iteration_s": framework.seconds("iteration_s"), **prepared.job.device_waits_s()}
    return {name: seconds for name, seconds in found.items() if seconds > 0.0}


def _together(
    one: Mapping[str, Sequence[Weighted]], other: Mapping[str, Sequence[Weighted]]
) -> dict[str, list[Weighted]]:
    return {name: [*one.get(name, ()), *other.get(name, ())] for name in (*one, *other)}
