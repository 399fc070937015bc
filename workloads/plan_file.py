"""The written form of a sharding plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from inputs.errors import InputError
from inputs.model import Strict, problem
from inputs.quantities import Count
from inputs.validate import validate
from inputs.yaml_lines import Document

ShardingType: TypeAlias = Literal["table_wise", "column_wise", "row_wise", "data_parallel"]


class ShardPlace(Strict):
    """A column shard: ``dim`` columns from ``column`` on, on ``rank``."""

    rank: Count
    column: Count
    dim: Annotated[Count, Field(gt=0)]


class TablePlan(Strict):
    """How a table is sharded; ``shards`` for table_wise and column_wise only, the others follow from the world_size."""

    sharding_type: ShardingType
    shards: tuple[ShardPlace, ...] = ()

    @model_validator(mode="after")
    def _shards_go_with_the_type(self) -> Self:
        allowed = {"table_wise": (1, 1, "one shard"), "column_wise": (1, math.inf, "one shard or more")}
        least, most, expected = allowed.get(self.sharding_type, (0, 0, "none, they follow from the world_size"))
        if not least <= len(self.shards) <= most:
            raise problem(
                f"a {self.sharding_type} table with {len(self.shards)} shards", key="shards", expected=expected
            )
        return self


class PlanFile(Strict):
    """A sharding plan.

    Attributes:
        world_size: ranks it is for.
        tables: by table name.
        planner: who made it.
        rows_scale: factor on the rows of all tables.
    """

    world_size: Annotated[Count, Field(gt=0)]
    tables: dict[str, TablePlan]
    planner: str = "file"
    rows_scale: Annotated[float, Field(gt=0, le=1)] = 1.0


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
