"""Names in ``summary.json``, and the job that heads it, its estimate and its plan."""

from __future__ import annotations

from typing import Any

from scenarios.family import family_of
from scenarios.resolved import ResolvedScenario
from scenarios.types import DEFAULT_KIND

SECONDS_PER_HOUR = 3600.0

SERVING_KEY = "serving"
"""Name of the section of summaries for jobs that answer requests."""

SEQUENCES_KEY = "sequences"
"""Name of the section of summaries for models of sequences."""

TARGET_KEY = "time_to_target"
"""Name of the section of summaries for jobs that train until a target is met."""

MODE_KEY = "mode"
"""Name of the mode, ``eval``, in summaries of jobs whose iteration is a forward pass only; others have none."""

DEFAULT_UNIT = "samples"
"""Unit of summaries that name none."""

DEFAULT_RANK_NAME = "GPUs"
"""Devices of the ranks (`hardware_specs.types.Node.rank_name`) in summaries that name none."""


def interval_keys(unit: str) -> tuple[str, ...]:
    """Keys of the ends of the interval, times first: 8 in 10 times are between p10 and p90."""
    rates = (f"throughput_{end}_{unit}_per_s" for end in ("p10", "p90"))
    return ("iteration_time_p10_s", "iteration_time_p90_s", *rates)


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
