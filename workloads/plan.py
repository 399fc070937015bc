"""Sharding plans: which rank holds which rows and columns of which table.

Words as in TorchRec: ``table_wise`` puts a table on one rank, ``column_wise`` its column ranges on several ranks,
``row_wise`` equal blocks of rows on all ranks, ``data_parallel`` a copy on every rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from inputs.errors import InputError, nearest_name
from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.plan_file import ShardingType, read_plan
from workloads.tables import Tables, scale_rows

SHARDING_TYPES: tuple[ShardingType, ...] = get_args(ShardingType)


@dataclass(frozen=True, slots=True)
class ColumnShards:
    """Shards that hold all rows of a range of columns: those of table_wise and column_wise tables.

    Attributes:
        table: table of each shard ``[S]``.
        rank: rank that holds it ``[S]``.
        column: its first column ``[S]``.
        dim: its number of columns ``[S]``.
    """

    table: IntArray
    rank: IntArray
    column: IntArray
    dim: IntArray

    def __len__(self) -> int:
        """S, the number of shards."""
        return len(self.table)


@dataclass(frozen=True, slots=True)
class Shards:
    """Every shard of a plan, rows and columns spelled out; all arrays ``[S]``.

    ``lookups_fraction``: share of the table's lookups that the shard serves (of the global batch; for a data_parallel
    copy of the local batch).
    """

    table: IntArray
    rank: IntArray
    row: IntArray
    rows: IntArray
    column: IntArray
    dim: IntArray
    lookups_fraction: FloatArray


@dataclass(frozen=True, slots=True)
class Plan:
    """A sharding plan.

    Row blocks and copies follow from the table and the world_size, so only column shards are stored one by one.

    Attributes:
        tables: the tables it is for.
        world_size: ranks.
        columns: shards of table_wise and column_wise tables, sorted by table and column.
        row_wise: tables cut into row blocks ``[...]``.
        data_parallel: tables copied to every rank ``[...]``.
        planner: who made it.
        rows_scale: factor that was applied to the rows of all tables (1 when none).
    """

    tables: Tables
    world_size: int
    columns: ColumnShards
    row_wise: IntArray
    data_parallel: IntArray
    planner: str
    rows_scale: float = 1.0

    @property
    def sharding_types(self) -> tuple[ShardingType, ...]:
        """Sharding type of each table ``[N]``."""
        pieces = np.bincount(self.columns.table, minlength=len(self.tables))
        types: list[ShardingType] = ["column_wise" if p > 1 else "table_wise" for p in pieces]
        for table in self.row_wise:
            types[table] = "row_wise"
        for table in self.data_parallel:
            types[table] = "data_parallel"
        return tuple(types)

    def block_rows(self) -> IntArray:
        """Rows of each row_wise table on each rank ``[tables, P]``.

        TorchRec gives each rank ``ceil(rows / P)`` rows, so the last ranks may get fewer or none.
        """
        rows = self.tables.rows[self.row_wise][:, None]
        block = -(-rows // self.world_size)
        return np.clip(rows - block * np.arange(self.world_size), 0, block)

    def shards(self) -> Shards:
        """All shards, in order of kind (columns, row blocks, copies), table and rank; empty row blocks left out."""
        return _join([_column_part(self), _row_part(self), _copy_part(self)])

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-like data; `plan_from_dict` reads it."""
        shards: list[list[list[int]]] = [[] for _ in self.tables.names]
        for table, *place in zip(*(a.tolist() for a in _fields(self.columns)), strict=True):
            shards[table].append(place)
        tables: dict[str, dict[str, Any]] = {}
        for name, kind, pieces in zip(self.tables.names, self.sharding_types, shards, strict=True):
            tables[name] = {"sharding_type": kind}
            if pieces:
                tables[name]["shards"] = [dict(zip(("rank", "column", "dim"), p, strict=True)) for p in pieces]
        return {"planner": self.planner, "world_size": self.world_size, "rows_scale": self.rows_scale, "tables": tables}


def make_plan(
    tables: Tables,
    world_size: int,
    planner: str,
    *,
    columns: ColumnShards | None = None,
    row_wise: Sequence[int] | IntArray = (),
    data_parallel: Sequence[int] | IntArray = (),
    rows_scale: float = 1.0,
) -> Plan:
    """A plan with its shards sorted.

    Raises:
        InputError: a table is missing, placed twice or only in part, or a rank does not exist.
    """
    columns = columns if columns is not None else ColumnShards(*(np.zeros(0, dtype=np.int64) for _ in range(4)))
    order = np.lexsort((columns.column, columns.table))
    plan = Plan(
        tables=tables,
        world_size=world_size,
        columns=ColumnShards(*(a[order] for a in _fields(columns))),
        row_wise=np.sort(np.asarray(row_wise, dtype=np.int64)),
        data_parallel=np.sort(np.asarray(data_parallel, dtype=np.int64)),
        planner=planner,
        rows_scale=rows_scale,
    )
    _check(plan)
    return plan


def plan_from_dict(data: Mapping[str, Any], tables: Tables, world_size: int) -> Plan:
    """Read a plan that `Plan.to_dict` wrote or a person did; ``tables`` have all their rows.

    Raises:
        InputError: it is for another world_size, or names unknown tables, or does not place every table once.
    """
    file = read_plan(data)
    if file.world_size != world_size:
        raise InputError(
            "the plan is for another world_size", key="world_size", given=file.world_size, expected=str(world_size)
        )
    number = {name: i for i, name in enumerate(tables.names)}
    for name in file.tables:
        if name not in number:
            raise InputError("no such table", key=f"tables.{name}", given=name, nearest=nearest_name(name, number))
    places = [(number[n], s.rank, s.column, s.dim) for n, entry in file.tables.items() for s in entry.shards]
    return make_plan(
        tables if file.rows_scale == 1.0 else scale_rows(tables, file.rows_scale),
        world_size,
        file.planner,
        columns=ColumnShards(*np.array(places, dtype=np.int64).reshape(-1, 4).T),
        row_wise=[number[n] for n, entry in file.tables.items() if entry.sharding_type == "row_wise"],
        data_parallel=[number[n] for n, entry in file.tables.items() if entry.sharding_type == "data_parallel"],
        rows_scale=file.rows_scale,
    )


def _fields(columns: ColumnShards) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    return columns.table, columns.rank, columns.column, columns.dim


def _check(plan: Plan) -> None:
    """Every table once, its column shards gapless, ranks in range."""
    tables, columns = plan.tables, plan.columns
    whole = np.zeros(len(tables), dtype=np.int64)
    np.add.at(whole, plan.row_wise, 1)
    np.add.at(whole, plan.data_parallel, 1)
    placed = np.bincount(columns.table, weights=columns.dim, minlength=len(tables)).astype(np.int64)
    bad = np.flatnonzero(np.where(placed > 0, (placed != tables.dim) | (whole > 0), whole != 1))
    if len(bad):
        name = tables.names[bad[0]]
        raise InputError(
            "the plan does not place every column of the table once",
            key=f"tables.{name}",
            given=f"{placed[bad[0]]} columns",
            expected=f"{tables.dim[bad[0]]}",
        )
    first = np.diff(columns.table, prepend=-1) != 0
    expected = np.where(first, 0, np.roll(columns.column + columns.dim, 1))
    gap = np.flatnonzero(columns.column != expected)
    if len(gap):
        name = tables.names[columns.table[gap[0]]]
        raise InputError(
            "column shards overlap or leave a gap",
            key=f"tables.{name}",
            given=int(columns.column[gap[0]]),
            expected=f"column {expected[gap[0]]}",
        )
    lost = np.flatnonzero((columns.rank < 0) | (columns.rank >= plan.world_size))
    if len(lost):
        raise InputError(
            "a shard is on a rank that does not exist",
            key=f"tables.{tables.names[columns.table[lost[0]]]}.shards",
            given=int(columns.rank[lost[0]]),
            expected=f"0 to {plan.world_size - 1}",
        )


def _column_part(plan: Plan) -> Shards:
    c = plan.columns
    return Shards(c.table, c.rank, np.zeros_like(c.table), plan.tables.rows[c.table], c.column, c.dim, np.ones(len(c)))


def _row_part(plan: Plan) -> Shards:
    rows = plan.block_rows()
    which, rank = np.nonzero(rows)
    table, held = plan.row_wise[which], rows[which, rank]
    block = -(-plan.tables.rows[table] // plan.world_size)
    zero = np.zeros_like(table)
    return Shards(table, rank, rank * block, held, zero, plan.tables.dim[table], held / plan.tables.rows[table])


def _copy_part(plan: Plan) -> Shards:
    table = np.repeat(plan.data_parallel, plan.world_size)
    rank = np.tile(np.arange(plan.world_size, dtype=np.int64), len(plan.data_parallel))
    zero = np.zeros_like(table)
    return Shards(table, rank, zero, plan.tables.rows[table], zero, plan.tables.dim[table], np.ones(len(table)))


def _join(parts: Sequence[Shards]) -> Shards:
    names = Shards.__dataclass_fields__
    return Shards(**{n: np.concatenate([getattr(p, n) for p in parts]) for n in names})
