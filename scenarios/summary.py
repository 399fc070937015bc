"""The content of ``summary.json``: the analysis of a run, with the job and the memory it needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from scenarios.levers import Levers
from scenarios.prepare import Prepared
from scenarios.resolve import ResolvedScenario
from scenarios.uncertainty.interval import Interval
from simulator.analysis import Analysis, Bound, summarise
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.rows.cache import hit_rates
from workloads.dlrm.sharding.plan import Plan
from workloads.graph.schedule import SCHEDULES

SECONDS_PER_HOUR = 3600.0

INTERVAL_KEYS = (
    "iteration_time_p10_s", "iteration_time_p90_s", "throughput_p10_samples_per_s", "throughput_p90_samples_per_s",
)  # fmt: skip
"""Ends of the interval: 8 in 10 times are between p10 and p90."""


def summary_of(
    prepared: Prepared,
    analysis: Analysis,
    bound: Bound | None,
    interval: Interval | None,
    levers: Levers | None,
    warnings: Sequence[str],
) -> dict[str, Any]:
    """Plain numbers, strings, lists and dicts; no clock, host or path: the same run gives the same summary."""
    resolved = prepared.resolved
    price = cost_of(resolved, analysis.iteration.throughput_samples_per_s(resolved.global_batch_size))
    found = summarise(
        analysis,
        nodes=resolved.nodes,
        global_batch_size=prepared.workload.headline.per_iteration,
        scenario_hash=resolved.hash,
        bound=bound,
        memory=prepared.memory.to_dict(),
        warnings=warnings,
    )
    return {
        **job_of(resolved),
        **found,
        **({} if interval is None else interval_summary(interval, prepared.workload.headline.per_iteration)),
        "levers": None if levers is None else levers.to_dict(),
        "sharding": sharding_of(prepared.plan),
        "caches": caches_of(prepared),
        "pipeline": pipeline_of(prepared.settings),
        **({} if price is None else {"cost": price}),
    }


def interval_summary(interval: Interval, samples: int) -> dict[str, Any]:
    """p10 and p90 of the iteration time and of the throughput, and what widens them.

    Args:
        samples: samples of an iteration over all ranks.
    """
    ends = (interval.p10_s, interval.p90_s, samples / interval.p90_s, samples / interval.p10_s)
    return {**dict(zip(INTERVAL_KEYS, ends, strict=True)), "uncertainty": interval.to_dict()}


def cost_of(resolved: ResolvedScenario, throughput_samples_per_s: float) -> dict[str, float] | None:
    """Price of the job, USD: of a GPU for an hour, of all for an hour, of a million samples; None without a price."""
    cost = resolved.scenario.cost
    if cost is None:
        return None
    all_hour_usd = cost.gpu_hour_usd * resolved.world_size
    return {
        "gpu_hour_usd": cost.gpu_hour_usd,
        "job_hour_usd": all_hour_usd,
        "million_samples_usd": all_hour_usd / SECONDS_PER_HOUR / throughput_samples_per_s * 1e6,
    }


def caches_of(prepared: Prepared) -> dict[str, float] | None:
    """Share of a batch's distinct rows and lookups that caches find; None without caches."""
    plan = prepared.plan
    sharded = np.setdiff1d(np.arange(len(plan.tables)), plan.data_parallel)
    found = hit_rates(plan.tables, prepared.settings, plan.storage, sharded)
    return None if found is None else {"distinct_rows_found": found.distinct_rows, "lookups_found": found.lookups}


def job_of(resolved: ResolvedScenario) -> dict[str, Any]:
    """The job, by name and size."""
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
    """Overlap between iterations, and the age of the rows that lookups see."""
    return {
        "name": settings.pipeline,
        "staleness_iterations": SCHEDULES[settings.pipeline].staleness,
        "gradient_accumulation": settings.gradient_accumulation,
        "cuda_graph": settings.cuda_graph,
    }


def sharding_of(plan: Plan) -> dict[str, Any]:
    """The planner, and the number of tables by kind of sharding."""
    return {
        "planner": plan.planner,
        "tables": len(plan.tables),
        "parameters": plan.tables.parameters,
        "rows_scale": plan.rows_scale,
        "tables_by_type": dict(sorted(Counter(plan.sharding_types).items())),
        "tables_by_kernel": dict(sorted(Counter(plan.compute_kernels).items())),
    }
