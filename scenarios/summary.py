"""The content of ``summary.json``: the analysis of a run, with the job and the memory it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scenarios.family import TimedJob
from scenarios.levers import Levers
from scenarios.prepare import Prepared
from scenarios.schedules import schedule_rows
from scenarios.summary_keys import cost_of, interval_keys, job_of
from scenarios.uncertainty.interval import Interval
from simulator.analysis import Analysis, Bound, summarise
from workloads.family import Headline


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
        **_timed_sections(prepared, analysis.iteration.seconds, interval),
        **({} if not prepared.applied else {"transform": schedule_rows(prepared.applied)}),
        **({} if price is None else {"cost": price}),
    }


def _timed_sections(prepared: Prepared, iteration_s: float, interval: Interval | None) -> Mapping[str, Any]:
    """Sections that follow from times; most families have none."""
    if not isinstance(prepared.job, TimedJob):
        return {}
    ends = (1.0, 1.0) if interval is None else (interval.p10_s / interval.time_s, interval.p90_s / interval.time_s)
    return prepared.job.timed_sections(iteration_s, *ends)


def interval_summary(interval: Interval, headline: Headline) -> dict[str, Any]:
    """p10 and p90 of the iteration time and of the throughput, and what widens them."""
    amount = headline.per_iteration
    ends = (interval.p10_s, interval.p90_s, amount / interval.p90_s, amount / interval.p10_s)
    return {**dict(zip(interval_keys(headline.unit), ends, strict=True)), "uncertainty": interval.to_dict()}
