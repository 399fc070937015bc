"""The content of ``summary.json``: the analysis of a run, with what was run and the memory it needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from scenarios.prepare import Prepared
from scenarios.resolve import ResolvedScenario
from simulator.analysis import Analysis, Bound, summarise
from workloads.plan import Plan
from workloads.schedule import SCHEDULES
from workloads.settings import DlrmSettings


def summary_of(prepared: Prepared, analysis: Analysis, bound: Bound, warnings: Sequence[str]) -> dict[str, Any]:
    """Plain numbers, strings, lists and dicts; no clock, host or path: the same run gives the same summary."""
    resolved = prepared.resolved
    found = summarise(
        analysis,
        nodes=resolved.nodes,
        global_batch_size=resolved.global_batch_size,
        scenario_hash=resolved.hash,
        bound=bound,
        memory=prepared.memory.to_dict(),
        warnings=warnings,
    )
    return {
        **job_of(resolved),
        **found,
        "sharding": sharding_of(prepared.plan),
        "pipeline": pipeline_of(prepared.settings),
    }


def job_of(resolved: ResolvedScenario) -> dict[str, Any]:
    """What is run, by name and size."""
    return {
        "schema": 1,
        "name": resolved.name,
        "cluster": resolved.cluster.name,
        "model": resolved.model.name,
        "framework": resolved.framework.name,
        "world_size": resolved.world_size,
        "nodes": resolved.nodes,
        "global_batch_size": resolved.global_batch_size,
        "local_batch_size": resolved.local_batch_size,
    }


def pipeline_of(settings: DlrmSettings) -> dict[str, Any]:
    """What overlaps between iterations, and how old the rows are that lookups see."""
    return {
        "name": settings.pipeline,
        "staleness_iterations": SCHEDULES[settings.pipeline].staleness,
        "gradient_accumulation": settings.gradient_accumulation,
        "cuda_graph": settings.cuda_graph,
    }


def sharding_of(plan: Plan) -> dict[str, Any]:
    """Who made the plan, and how many tables it shards in which way."""
    return {
        "planner": plan.planner,
        "tables": len(plan.tables),
        "parameters": plan.tables.parameters,
        "rows_scale": plan.rows_scale,
        "tables_by_type": dict(sorted(Counter(plan.sharding_types).items())),
    }
