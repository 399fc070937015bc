"""Data of a run's page, made from its outcome."""

from __future__ import annotations

from collections.abc import Sequence

from dlrmsim import __version__
from dlrmsim.pages.provenance import origins
from reports.findings import JobFacts, MemoryTier, RunFindings, SequenceFindings
from reports.numbers import hourly
from reports.sequence_words import FORWARD_ONLY, target_work
from scenarios.block_times import BLOCKS_KEY, BlockTimes
from scenarios.capacity import MemoryReport
from scenarios.family import family_of
from scenarios.memory_curve import MEMORY_CURVE_KEY, MemoryCurve
from scenarios.runner import Outcome
from scenarios.schedules import schedule_rows, schedule_words
from scenarios.sequence_loads import SequenceJob
from scenarios.summary_keys import MODE_KEY, SEQUENCES_KEY, SERVING_KEY, TARGET_KEY, price_key
from workloads.graph.memory import TIERS


def run_findings(outcome: Outcome, asked_ranks: Sequence[int] = ()) -> RunFindings:
    """Everything the page of a run is made from; ``asked_ranks`` are shown first."""
    analysis = outcome.analysis
    return RunFindings(
        job=_job(outcome),
        iteration=analysis.iteration,
        programs=outcome.graph.programs,
        result=outcome.result,
        breakdown=analysis.breakdown,
        chosen=analysis.ranks,
        roles=analysis.roles,
        on_cpus=outcome.resolved.cluster.node.gpu is None,
        collectives=analysis.collectives,
        critical_path=analysis.critical_path,
        bound=outcome.bound,
        levers=outcome.levers,
        interval=outcome.interval,
        memory=_memory(outcome.prepared.memory),
        origins=origins(outcome.resolved),
        warnings=outcome.warnings,
        blocks=[BlockTimes(**row) for row in outcome.summary.get(BLOCKS_KEY, ())],
        serving=outcome.summary.get(SERVING_KEY),
        memory_curve=_memory_curve(outcome),
        sequences=_sequences(outcome),
        target=outcome.summary.get(TARGET_KEY),
        asked_ranks=asked_ranks,
    )


def _job(outcome: Outcome) -> JobFacts:
    resolved, cost = outcome.resolved, outcome.summary.get("cost")
    unit = outcome.prepared.workload.headline.unit
    facts = {"Framework": resolved.framework.title, **family_of(resolved).facts(resolved)}
    facts.setdefault("Placement", resolved.scenario.placement)  # a family may show it in a place of its own
    steps = schedule_rows(outcome.prepared.applied)
    if steps:
        facts["Schedule"] = "; ".join(f"{row['transformation']} {schedule_words(row)}" for row in steps)
    if MODE_KEY in outcome.summary:
        facts["Mode"] = f"{outcome.summary[MODE_KEY]}: {FORWARD_ONLY}"
    if TARGET_KEY in outcome.summary:
        facts["To the target"] = target_work(outcome.summary[TARGET_KEY])
    if resolved.scenario.cost is not None:
        facts["Price"] = hourly(resolved.scenario.cost.gpu_hour_usd, resolved.cluster.node.rank_name)
    return JobFacts(
        name=resolved.name,
        model=resolved.model.name,
        cluster=resolved.cluster.name,
        processor=resolved.cluster.node.processor_name,
        nodes=resolved.nodes,
        world_size=resolved.world_size,
        global_batch_size=resolved.global_batch_size,
        facts=facts,
        scenario_hash=resolved.hash,
        scenario_yaml=resolved.to_yaml(),
        version=__version__,
        million_usd=None if cost is None else cost[price_key(unit)],
        unit=unit,
        rank_name=resolved.cluster.node.rank_name,
        forward_only=MODE_KEY in outcome.summary,
    )


def _sequences(outcome: Outcome) -> SequenceFindings | None:
    job, summary = outcome.prepared.job, outcome.summary
    loads = job.sequence_loads() if isinstance(job, SequenceJob) else None
    if loads is None:
        return None
    return SequenceFindings(summary[SEQUENCES_KEY], loads, outcome.levers, MODE_KEY in summary)


def _memory_curve(outcome: Outcome) -> MemoryCurve | None:
    found = outcome.summary.get(MEMORY_CURVE_KEY)
    return None if found is None else MemoryCurve(**found)


def _memory(report: MemoryReport) -> tuple[MemoryTier, ...]:
    """The tiers that the nodes have and the job uses."""
    there = (tier for tier in TIERS if report.capacity_bytes[tier] > 0 and report.items(tier))
    return tuple(MemoryTier(tier, report.capacity_bytes[tier], report.items(tier)) for tier in there)
