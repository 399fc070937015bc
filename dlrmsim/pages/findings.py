"""Data of a run's page, made from its outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlrmsim import __version__
from dlrmsim.pages.provenance import origins
from reports.findings import Job, MemoryTier, RunFindings
from reports.numbers import usd
from scenarios.capacity import MemoryReport
from scenarios.resolve import ResolvedScenario
from scenarios.runner import Outcome
from scenarios.types import Workload
from workloads.graph.memory import TIERS
from workloads.graph.schedule import SCHEDULES


def run_findings(outcome: Outcome, asked_ranks: Sequence[int] = ()) -> RunFindings:
    """Everything the page of a run is made from; ``asked_ranks`` are shown first."""
    analysis = outcome.analysis
    return RunFindings(
        job=_job(outcome.resolved, outcome.summary.get("cost")),
        iteration=analysis.iteration,
        programs=outcome.graph.programs,
        result=outcome.result,
        breakdown=analysis.breakdown,
        chosen=analysis.ranks,
        collectives=analysis.collectives,
        critical_path=analysis.critical_path,
        bound=outcome.bound,
        levers=outcome.levers,
        interval=outcome.interval,
        memory=_memory(outcome.prepared.memory),
        origins=origins(outcome.resolved),
        warnings=outcome.warnings,
        asked_ranks=asked_ranks,
    )


def _job(resolved: ResolvedScenario, cost: Mapping[str, float] | None) -> Job:
    scenario, precision = resolved.scenario, resolved.scenario.precision
    facts = {
        "Framework": resolved.framework.title,
        "Sharding": scenario.workload.sharding.planner or "by plan",
        "Placement": scenario.placement,
        "Pipeline": _pipeline(scenario.workload),
        "Arithmetic": f"dense {precision.dense}, tables {precision.tables}",
        "On the wire": (
            f"all_to_all {precision.forward_all_to_all} forward, {precision.backward_all_to_all} backward; "
            f"all_reduce {precision.all_reduce}"
        ),
    }
    if scenario.cost is not None:
        facts["Price"] = f"{usd(scenario.cost.gpu_hour_usd)} per GPU-hour"
    return Job(
        name=resolved.name,
        model=resolved.model.name,
        cluster=resolved.cluster.name,
        gpu=resolved.cluster.node.processor_name,
        nodes=resolved.nodes,
        world_size=resolved.world_size,
        global_batch_size=resolved.global_batch_size,
        facts=facts,
        scenario_hash=resolved.hash,
        scenario_yaml=resolved.to_yaml(),
        version=__version__,
        million_samples_usd=None if cost is None else cost["million_samples_usd"],
    )


def _pipeline(workload: Workload) -> str:
    """The pipeline, how old the rows are that its lookups see, and the passes of an iteration."""
    pipeline, passes = workload.pipeline or "none", workload.gradient_accumulation
    stale = SCHEDULES[pipeline].staleness
    old = f", lookups {stale} update old" if stale else ""
    return pipeline + old + (f", {passes} passes" if passes > 1 else "")


def _memory(report: MemoryReport) -> tuple[MemoryTier, ...]:
    """The tiers that the nodes have."""
    there = (tier for tier in TIERS if report.capacity_bytes[tier] > 0)
    return tuple(MemoryTier(tier, report.capacity_bytes[tier], report.items(tier)) for tier in there)
