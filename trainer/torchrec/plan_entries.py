"""TorchRec's ``ShardingPlan`` as the content of a plan file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from inputs.errors import InputError
from trainer.torchrec.interfaces import TorchrecShardingPlan
from workloads.dlrm.model.storage import CACHED_KERNELS
from workloads.dlrm.sharding.plan_file import UNSIMULATED

PLANNER = "torchrec"
"""``planner`` of plans that come from TorchRec."""


def plan_entries(plan: TorchrecShardingPlan, world_size: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Content of a plan file, and notes on settings that it lacks.

    Raises:
        InputError: a table's shards are not spelled out.
    """
    notes: list[str] = []
    modules = {path: _module(tables, notes) for path, tables in plan.plan.items()}
    return {"planner": PLANNER, "world_size": world_size, "plan": modules}, tuple(notes)


def _module(tables: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    return {name: _entry(name, sharding, notes) for name, sharding in tables.items()}


def _entry(name: str, sharding: Any, notes: list[str]) -> dict[str, Any]:
    """A table's entry."""
    kernel = sharding.compute_kernel
    entry: dict[str, Any] = {
        "sharding_type": sharding.sharding_type,
        "compute_kernel": kernel,
        "ranks": None if sharding.ranks is None else [int(rank) for rank in sharding.ranks],
        "sharding_spec": _spec(name, sharding.sharding_spec),
    }
    cache = sharding.cache_params
    if cache is not None and kernel in CACHED_KERNELS:
        entry["cache_params"] = {"load_factor": cache.load_factor}
    notes += cache_notes(name, kernel, cache)
    if sharding.key_value_params is not None:
        notes.append(f"{name}: key_value_params of the plan are left out")
    written = {key: getattr(sharding, key, None) for key in UNSIMULATED}
    return entry | {key: _plain(value) for key, value in written.items() if value is not None}


def cache_notes(name: str, kernel: str, cache: Any) -> list[str]:
    """Notes on the cache settings of a table that a scenario lacks."""
    if cache is None:
        return []
    if kernel not in CACHED_KERNELS:
        return [f"{name}: cache_params are left out, {kernel} has no cache"]
    given = {field.name for field in fields(cache)} if is_dataclass(cache) else set()
    lost = [key for key in sorted(given - {"load_factor"}) if getattr(cache, key) is not None]
    return [f"{name}: {', '.join(lost)} of cache_params are left out"] if lost else []


def _spec(name: str, spec: Any) -> dict[str, Any] | None:
    """All shards.

    Raises:
        InputError: the spec does not list them.
    """
    if spec is None:
        return None
    shards = getattr(spec, "shards", None)
    if shards is None:
        raise InputError(
            f"the plan does not list the shards of {name}",
            given=type(spec).__name__,
            expected="EnumerableShardingSpec",
        )
    return {
        "shards": [
            {
                "shard_offsets": [int(at) for at in shard.shard_offsets],
                "shard_sizes": [int(size) for size in shard.shard_sizes],
                "placement": str(shard.placement),
            }
            for shard in shards
        ]
    }


def _plain(value: Any) -> object:
    """A boolean; an integer enumeration by its name in small letters; another one by its value."""
    if isinstance(value, bool):
        return value
    name: str = getattr(value, "name", str(value))
    return name.lower() if isinstance(value, int) else str(value)
