"""The content of ``summary.json``: the analysis of a run, with the job and the memory it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scenarios.family import TimedJob, family_of
from scenarios.levers import Levers
from scenarios.prepare import Prepared
from scenarios.resolved import ResolvedScenario
from scenarios.schedules import schedule_rows
from scenarios.types import DEFAULT_KIND
from scenarios.uncertainty.interval import Interval
from simulator.analysis import Analysis, Bound, summarise
from workloads.family import Headline

SECONDS_PER_HOUR = 3600.0

SERVING_KEY = "serving"
"""Name of the section of summaries for jobs that answer requests."""

DEFAULT_UNIT = "samples"
"""Unit of summaries that name none."""

DEFAULT_RANK_NAME = "GPUs"
"""Devices of the ranks (`hardware_specs.types.Node.rank_name`) in summaries that name none."""


def summary_of(
    prepared: Prepared,
    analysis: Analysis,
    bound: Bound | None,
    interval: Interval | None,
    levers: Levers | None,
    warnings: Sequence[str],
) -> dict[str, Any]:
    """Plain numbers, strings, lists and dicts; no clock, host or path: the same run gives the same summary."""
    resolved, headline = prepared.resolved, prepared.workload.headline
    price = cost_of(resolved, analysis.iteration.throughput_per_s(headline.per_iteration), headline.unit)
    found = summarise(
        analysis,
        nodes=resolved.nodes,
        global_batch_size=headline.per_iteration,
        scenario_hash=resolved.hash,
        bound=bound,
        memory=prepared.memory.to_dict(),
        warnings=warnings,
        unit=headline.unit,
    )
    return {
        **job_of(resolved),
        **found,
        **({} if interval is None else interval_summary(interval, headline)),
        "levers": None if levers is None else levers.to_dict(),
        **prepared.job.summary_sections(),
        **_timed_sections(prepared, interval),
        **({} if not prepared.applied else {"transform": schedule_rows(prepared.applied)}),
        **({} if price is None else {"cost": price}),
    }


def _timed_sections(prepared: Prepared, interval: Interval | None) -> Mapping[str, Any]:
    """Sections that follow from times; most families have none."""
    if not isinstance(prepared.job, TimedJob):
        return {}
    ends = (1.0, 1.0) if interval is None else (interval.p10_s / interval.time_s, interval.p90_s / interval.time_s)
    return prepared.job.timed_sections(*ends)


def interval_keys(unit: str) -> tuple[str, ...]:
    """Keys of the ends of the interval, times first: 8 in 10 times are between p10 and p90."""
    rates = (f"throughput_{end}_{unit}_per_s" for end in ("p10", "p90"))
    return ("iteration_time_p10_s", "iteration_time_p90_s", *rates)


def interval_summary(interval: Interval, headline: Headline) -> dict[str, Any]:
    """p10 and p90 of the iteration time and of the throughput, and what widens them."""
    amount = headline.per_iteration
    ends = (interval.p10_s, interval.p90_s, amount / interval.p90_s, amount / interval.p10_s)
    return {**dict(zip(interval_keys(headline.unit), ends, strict=True)), "uncertainty": interval.to_dict()}


def price_key(unit: str) -> str:
    """Key of the price of a million: ``million_samples_usd``."""
    return f"million_{unit}_usd"


def cost_of(resolved: ResolvedScenario, throughput_per_s: float, unit: str) -> dict[str, float] | None:
    """Price of the job, USD: of a GPU for an hour, of all for an hour, of a million samples; None without a price."""
    cost = resolved.scenario.cost
    if cost is None:
        return None
    all_hour_usd = cost.gpu_hour_usd * resolved.world_size
    return {
        "gpu_hour_usd": cost.gpu_hour_usd,
        "job_hour_usd": all_hour_usd,
        price_key(unit): all_hour_usd / SECONDS_PER_HOUR / throughput_per_s * 1e6,
    }


def job_of(resolved: ResolvedScenario) -> dict[str, Any]:
    """The job, by name and size.

    The kind of workload, the unit of throughput and the devices of ranks are left out where they are the default ones,
    and the ranks that train where all do.
    """
    unit, rank_name = family_of(resolved).unit, resolved.cluster.node.rank_name
    roles = resolved.scenario.workload.roles(resolved.world_size)
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
        **({} if resolved.kind == DEFAULT_KIND else {"workload": resolved.kind}),
        **({} if unit == DEFAULT_UNIT else {"unit": unit}),
        **({} if rank_name == DEFAULT_RANK_NAME else {"rank_name": rank_name}),
        **({} if not roles else {"training": {"name": next(iter(roles)), "ranks": next(iter(roles.values()))}}),
    }
