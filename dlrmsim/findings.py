"""From an outcome to what the page of a run shows."""

from __future__ import annotations

from collections.abc import Sequence

from dlrmsim import __version__
from dlrmsim.provenance import origins
from reports.findings import Job, MemoryTier, RunFindings
from scenarios.capacity import TIERS, MemoryReport
from scenarios.resolve import ResolvedScenario
from scenarios.runner import Outcome


def run_findings(outcome: Outcome, asked_ranks: Sequence[int] = ()) -> RunFindings:
    """Everything the page of a run is made from; ``asked_ranks`` are shown first."""
    analysis = outcome.analysis
    return RunFindings(
        job=_job(outcome.resolved),
        iteration=analysis.iteration,
        programs=outcome.graph.programs,
        result=outcome.result,
        breakdown=analysis.breakdown,
        chosen=analysis.ranks,
        collectives=analysis.collectives,
        critical_path=analysis.critical_path,
        bound=outcome.bound,
        memory=_memory(outcome.prepared.memory),
        origins=origins(outcome.resolved),
        warnings=outcome.warnings,
        asked_ranks=asked_ranks,
    )


def _job(resolved: ResolvedScenario) -> Job:
    scenario, precision = resolved.scenario, resolved.scenario.precision
    facts = {
        "Framework": resolved.framework.title,
        "Sharding": scenario.workload.sharding.planner or "by plan",
        "Placement": scenario.placement,
        "Pipeline": scenario.workload.pipeline,
        "Arithmetic": f"dense {precision.dense}, tables {precision.tables}",
        "On the wire": (
            f"all_to_all {precision.forward_all_to_all} forward, {precision.backward_all_to_all} backward; "
            f"all_reduce {precision.all_reduce}"
        ),
    }
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
    )


def _memory(report: MemoryReport) -> tuple[MemoryTier, ...]:
    return tuple(MemoryTier(tier, report.capacity_bytes[tier], report.items(tier)) for tier in TIERS)
