"""Plan files as the library's own ``ShardingPlan``, which ``DistributedModelParallel`` takes (torchrec 1.8.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import (
    BoundsCheckMode,
    CacheParams,
    EmbeddingModuleShardingPlan,
    EnumerableShardingSpec,
    ParameterSharding,
    ShardingPlan,
    ShardMetadata,
)
from torchrec.modules.embedding_configs import DataType

from inputs.errors import InputError
from trainer.torchrec.constraints import Constraints
from trainer.torchrec.interfaces import TorchrecConstraints, TorchrecShardingPlan
from workloads.dlrm.sharding.constraints import ConstraintFields
from workloads.dlrm.sharding.plan_file import PlanFile, ShardEntry, TablePlan


def sharding_plan(
    file: PlanFile,
    *,
    paths: Mapping[str, str] | str | None = None,
    constraints: Constraints | None = None,
    device: str | None = None,
) -> TorchrecShardingPlan:
    """The plan of a file.

    Args:
        paths: path of the module of every table, or of the module of all; None: the file's own.
        constraints: settings of tables for the kernels, which a plan of dlrmsim lacks.
        device: kind of device of all placements; None: the file's own.

    Raises:
        InputError: the rows of the tables were scaled, or an entry does not list its shards.
    """
    if file.rows_scale != 1.0:
        raise InputError(
            "the plan is for tables with fewer rows", key="rows_scale", given=file.rows_scale, expected="1"
        )
    modules: dict[str, EmbeddingModuleShardingPlan] = {}
    for module, tables in file.plan.items():
        for name, entry in tables.items():
            path = _path(name, module, paths)
            part = modules.setdefault(path, EmbeddingModuleShardingPlan())
            part[name] = _sharding(name, entry, file, (constraints or {}).get(name), device)
    plan: TorchrecShardingPlan = ShardingPlan(modules)
    return plan


def _path(table: str, module: str, paths: Mapping[str, str] | str | None) -> str:
    """Path of a table's module.

    Raises:
        InputError: no module has the table.
    """
    if paths is None or isinstance(paths, str):
        return module if paths is None else paths
    if table not in paths:
        raise InputError("the module has no such table", key="plan", given=table, expected=", ".join(list(paths)[:8]))
    return paths[table]


def _sharding(name: str, entry: TablePlan, file: PlanFile, constraint: Any, device: str | None) -> ParameterSharding:
    """A table's ``ParameterSharding``.

    Raises:
        InputError: the entry does not list its shards.
    """
    copied = entry.sharding_type == "data_parallel"
    local = file.local_world_size
    shards = None if entry.sharding_spec is None else entry.sharding_spec.shards
    if shards is None and not copied:
        raise InputError(
            f"the plan does not list the shards of {name}",
            key="plan",
            given="ranks",
            expected="sharding_spec, as `dlrmsim plan --out` writes it, or the module, whose tables have the sizes",
        )
    bounds, dtype = entry.bounds_check_mode, entry.output_dtype
    return ParameterSharding(
        sharding_type=entry.sharding_type,
        compute_kernel=entry.compute_kernel or ("dense" if copied else "fused"),
        ranks=_ranks(entry, file.world_size),
        sharding_spec=None
        if shards is None
        else EnumerableShardingSpec([_metadata(shard, device, local) for shard in shards]),
        cache_params=_cache(entry, constraint),
        enforce_hbm=_first(entry.enforce_hbm, constraint, "enforce_hbm"),
        stochastic_rounding=_first(entry.stochastic_rounding, constraint, "stochastic_rounding"),
        bounds_check_mode=_first(
            None if bounds is None else BoundsCheckMode[bounds.upper()], constraint, "bounds_check_mode"
        ),
        output_dtype=_first(None if dtype is None else DataType(dtype), constraint, "output_dtype"),
        key_value_params=_first(None, constraint, "key_value_params"),
    )


def _ranks(entry: TablePlan, world_size: int) -> list[int]:
    """Rank of each shard, in their order: TorchRec pairs the two lists."""
    if entry.sharding_spec is None:
        return list(range(world_size) if entry.ranks is None else entry.ranks)
    return [shard.rank for shard in entry.sharding_spec.shards]


def _metadata(shard: ShardEntry, device: str | None, local_world_size: int | None) -> ShardMetadata:
    """A shard; its placement has the form of torchrec/distributed/planner/utils.py ``placement``."""
    placement = shard.placement
    if device == "cpu":
        placement = f"rank:{shard.rank}/cpu"
    elif device is not None and local_world_size is not None:
        placement = f"rank:{shard.rank}/{device}:{shard.rank % local_world_size}"
    return ShardMetadata(
        shard_offsets=list(shard.shard_offsets), shard_sizes=list(shard.shard_sizes), placement=placement
    )


def _cache(entry: TablePlan, constraint: Any) -> CacheParams | None:
    """The constraint's cache with the load factor of the plan."""
    given = getattr(constraint, "cache_params", None)
    if entry.cache_params is None:
        return given
    return replace(given or CacheParams(), load_factor=entry.cache_params.load_factor)


def _first(value: object, constraint: Any, key: str) -> Any:
    """The plan's value, or the constraint's where the plan has none."""
    return getattr(constraint, key, None) if value is None else value


def parameter_constraints(entries: Mapping[str, ConstraintFields]) -> dict[str, TorchrecConstraints]:
    """TorchRec's ``ParameterConstraints`` of each table."""
    return {
        name: ParameterConstraints(
            sharding_types=None if fields.sharding_types is None else list(fields.sharding_types),
            compute_kernels=list(fields.compute_kernels),
            min_partition=fields.min_partition,
            pooling_factors=list(fields.pooling_factors),
            cache_params=None if fields.load_factor is None else CacheParams(load_factor=fields.load_factor),
        )
        for name, fields in entries.items()
    }
