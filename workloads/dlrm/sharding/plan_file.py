"""The written form of a sharding plan: TorchRec's ``ShardingPlan`` as JSON or YAML, and the job it is for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from inputs.errors import InputError
from inputs.given import cut
from inputs.model import Strict, problem
from inputs.quantities import Count, RankCount, RankNumber
from inputs.validate import validate
from inputs.yaml_lines import Document
from workloads.dlrm.model.storage import CACHED_KERNELS, COMPUTE_KERNELS, ComputeKernel

ShardingType: TypeAlias = Literal[
    "table_wise", "column_wise", "row_wise", "table_row_wise", "table_column_wise", "grid_shard", "data_parallel"
]
OF_SEQUENCES: tuple[ShardingType, ...] = ("table_wise", "column_wise", "row_wise", "data_parallel")
"""Sharding types of tables of sequences (torchrec/distributed/embedding.py, ``sharding_types``)."""

OF_ONE_RANGE: Mapping[ShardingType, ShardingType] = {"column_wise": "table_wise", "grid_shard": "table_row_wise"}
"""Sharding types with column ranges, and the types that equal them where there is a single range."""

PlanKernel: TypeAlias = ComputeKernel | Literal["dense"]

BoundsCheckMode: TypeAlias = Literal["fatal", "warning", "ignore", "none", "v2_ignore", "v2_warning", "v2_fatal"]
UNSIMULATED = ("enforce_hbm", "stochastic_rounding", "bounds_check_mode", "output_dtype")
"""Keys of TorchRec's ``ParameterSharding`` that trainers obey and the simulation ignores."""

_PLACEMENT = re.compile(r"rank:(\d{1,9})/(?:cuda:\d{1,9}|cpu(?::\d{1,9})?)")


class ShardEntry(Strict):
    """A shard, as TorchRec's ``ShardMetadata``: first row and column, rows and columns, ``rank:3/cuda:3``."""

    shard_offsets: tuple[Count, Count]
    shard_sizes: tuple[Count, Count]
    placement: str

    @model_validator(mode="after")
    def _has_a_rank(self) -> Self:
        if _PLACEMENT.fullmatch(self.placement) is None:
            raise problem(f"not a placement: {cut(self.placement)}", key="placement", expected="such as rank:3/cuda:3")
        return self

    @property
    def rank(self) -> int:
        """The rank that holds it."""
        found = _PLACEMENT.fullmatch(self.placement)
        return int(found[1]) if found else -1


class SpecEntry(Strict):
    """All shards of a table, as TorchRec's ``EnumerableShardingSpec``."""

    shards: Annotated[tuple[ShardEntry, ...], Field(min_length=1)]


class CacheParams(Strict):
    """The cache of a table, as TorchRec's ``CacheParams``: ``load_factor`` is the share of its rows that fit."""

    load_factor: Annotated[float, Field(ge=1e-12, le=1)] | None = None


class TablePlan(Strict):
    """Sharding of a table, as TorchRec's ``ParameterSharding``.

    ``sharding_spec`` may be left out: then ``ranks`` hold equal parts in their order, and for row_wise and
    data_parallel tables, which are on all ranks, they may be left out too. Without a kernel it is ``fused``. The keys
    of `UNSIMULATED` are for the trainer.
    """

    sharding_type: ShardingType
    compute_kernel: PlanKernel | None = None
    cache_params: CacheParams | None = None
    ranks: tuple[RankNumber, ...] | None = None
    sharding_spec: SpecEntry | None = None
    enforce_hbm: bool | None = None
    stochastic_rounding: bool | None = None
    bounds_check_mode: BoundsCheckMode | None = None
    output_dtype: str | None = None

    @model_serializer(mode="wrap")
    def _short(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The entry, without keys of `UNSIMULATED` that are not set: plans have thousands of tables."""
        written: dict[str, Any] = write(self)
        return {key: value for key, value in written.items() if key not in UNSIMULATED or value is not None}

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        copied = self.sharding_type == "data_parallel"
        if self.compute_kernel is not None and (self.compute_kernel == "dense") != copied:
            raise problem(
                f"a {self.sharding_type} table with the kernel {self.compute_kernel}",
                key="compute_kernel",
                expected="dense" if copied else f"one of {', '.join(COMPUTE_KERNELS)}",
            )
        if self.cache_params is not None and self.compute_kernel not in CACHED_KERNELS:
            raise problem(
                "a cache for a kernel that has none",
                key="cache_params",
                expected=f"null, or {' or '.join(CACHED_KERNELS)} as compute_kernel",
            )
        if copied and self.sharding_spec is not None:
            raise problem("a data_parallel table with shards", key="sharding_spec", expected="null, all ranks have it")
        if (
            self.ranks is None
            and self.sharding_spec is None
            and self.sharding_type not in ("row_wise", "data_parallel")
        ):
            raise problem(f"a {self.sharding_type} table without a place", expected="ranks or sharding_spec")
        return self


class PlanFile(Strict):
    """A sharding plan.

    Attributes:
        world_size: equal to that of the scenario.
        local_world_size: ranks per node; those of the scenario's cluster when left out.
        plan: module path -> table -> how it is sharded.
        planner: name of the planner that made it.
        rows_scale: factor on the rows of all tables; sizes are those of the scaled tables.
    """

    world_size: RankCount
    local_world_size: RankCount | None = None
    plan: dict[str, dict[str, TablePlan]]
    planner: str = "file"
    rows_scale: Annotated[float, Field(ge=1e-12, le=1)] = 1.0


def read_plan(data: Mapping[str, Any]) -> PlanFile:
    """Check a written plan.

    Raises:
        InputError: with the key within the plan; the caller knows the file.
    """
    try:
        return validate(PlanFile, Document(dict(data), {}, Path("plan")))
    except InputError as error:
        raise InputError(
            error.message, key=error.key, given=error.given, expected=error.expected, nearest=error.nearest
        ) from None
