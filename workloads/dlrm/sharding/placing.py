"""Common parts of planners: cuts of tables by columns, and placement of the pieces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from inputs.errors import InfeasibleError
from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.model.columns import cut_columns, most_pieces, widest_range
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.balance import Places, improve, place
from workloads.dlrm.sharding.costs import TINY_S
from workloads.dlrm.sharding.interfaces import PHASES, PlanningContext
from workloads.dlrm.sharding.shards import ColumnShards

MEMORY_SHARE = 0.5
"""A column shard fills at most this share of a rank's memory for tables."""


def all_tables(tables: Tables) -> IntArray:
    """Their numbers ``[N]``."""
    return np.arange(len(tables), dtype=np.int64)


def wanted_pieces(
    tables: Tables,
    table: IntArray,
    context: PlanningContext,
    free_bytes: float,
    cost_share: float,
    memory_share: float = MEMORY_SHARE,
) -> IntArray:
    """Column shards that cost and size ask for ``[len(table)]``.

    Args:
        tables: all tables.
        table: numbers of the tables to cut ``[...]``.
        free_bytes: a rank's memory for tables, bytes.
        cost_share: a shard costs at most this share of a rank's mean load in any phase.
        memory_share: largest share of ``free_bytes`` for a shard of a table that can be cut.
    """
    cost = context.costs.column_shard_s(table, tables.dim[table])
    share = cost / np.maximum(cost.sum(axis=0) / context.world_size, TINY_S)
    by_cost = np.ceil(share.max(axis=1, initial=0.0) / cost_share)
    by_size = pieces_within(tables, table, context, memory_share * free_bytes)
    limit = np.minimum(most_pieces(tables.dim[table]), context.world_size)
    return np.asarray(np.clip(np.maximum(by_cost, by_size), 1, limit), dtype=np.int64)


def pieces_within(
    tables: Tables, table: IntArray, context: PlanningContext, limit_bytes: float, ranks: int = 1
) -> IntArray:
    """Fewest column ranges with no shard above a size, or the most that the columns allow ``[len(table)]``.

    Args:
        tables: all tables.
        table: numbers of the tables to cut ``[...]``.
        context: sizes.
        limit_bytes: the size.
        ranks: number of ranks over which the rows of each range are spread.
    """
    dim = tables.dim[table]
    below, found = np.zeros(len(table), dtype=np.int64), most_pieces(dim)
    while np.any(found - below > 1):  # halving: more ranges are never wider
        middle = np.maximum((below + found) // 2, 1)
        within = block_bytes(tables, context, table, widest_range(dim, middle), ranks) <= limit_bytes
        below, found = np.where(within, below, middle), np.where(within, middle, found)
    return found


def fitting_pieces(tables: Tables, context: PlanningContext) -> IntArray:
    """Column shards of each table that its size alone asks for ``[N]``."""
    return wanted_pieces(tables, all_tables(tables), context, context.memory_bytes, cost_share=np.inf)


def shard_bytes(tables: Tables, context: PlanningContext, table: IntArray, dim: IntArray) -> IntArray:
    """Bytes of column shards ``[S]``."""
    return context.stored_bytes(tables.rows[table], dim, tables.element_bytes[table], table)


def block_bytes(tables: Tables, context: PlanningContext, table: IntArray, dim: IntArray, ranks: int) -> IntArray:
    """Bytes of the largest row block of shards whose rows are cut over ``ranks`` ranks ``[S]``."""
    return context.stored_bytes(-(-tables.rows[table] // ranks), dim, tables.element_bytes[table], table)


def place_columns(
    tables: Tables, table: IntArray, pieces: IntArray, context: PlanningContext, free_bytes: float
) -> ColumnShards:
    """Cut tables and place the pieces by cost on empty ranks.

    Raises:
        InfeasibleError: they do not fit.
    """
    shard_table, column, dim = cut_columns(table, tables.dim[table], pieces)
    costs = context.costs.column_shard_s(shard_table, dim)
    return place_by(tables, ColumnShards(shard_table, np.zeros_like(dim), column, dim), costs, context, free_bytes)


def place_by(
    tables: Tables, columns: ColumnShards, costs: FloatArray, context: PlanningContext, free_bytes: float
) -> ColumnShards:
    """The shards on empty ranks, balanced by ``costs`` ``[S, K]``.

    Raises:
        InfeasibleError: they do not fit.
    """
    sizes = shard_bytes(tables, context, columns.table, columns.dim)
    places = Places.equal(free_bytes, context.world_size, costs.shape[1])
    return replace(columns, rank=place(costs, sizes, places, hasty=context.hasty))


def improve_columns(tables: Tables, columns: ColumnShards, context: PlanningContext, free_bytes: float) -> ColumnShards:
    """Move and swap shards of the slowest ranks, unless the planner is hasty."""
    if context.hasty:
        return columns
    sizes = shard_bytes(tables, context, columns.table, columns.dim)
    costs = context.costs.column_shard_s(columns.table, columns.dim)
    places = Places.equal(free_bytes, context.world_size, len(PHASES))
    return replace(columns, rank=improve(costs, sizes, columns.rank, places))


def too_much(tables: Tables, context: PlanningContext) -> str:
    """Sentence for tables that exceed the memory of all ranks together."""
    needed, ranks, room = context.least_bytes(tables), context.world_size, context.memory_bytes
    there = f"{ranks} ranks have {ranks * room / 1e9:.1f} GB for them ({room / 1e9:.2f} GB each)"
    if ranks == 1:
        there = f"the only rank has {room / 1e9:.2f} GB for them"
    return f"the tables need {needed / 1e9:.1f} GB, {there}"


def check_everywhere(needed_bytes: float, what: str, context: PlanningContext) -> None:
    """Check that every rank has room.

    Raises:
        InfeasibleError: it has not.
    """
    if needed_bytes > context.memory_bytes:
        raise InfeasibleError(
            f"{what} need {needed_bytes / 1e9:.2f} GB on every rank, "
            f"a rank has {context.memory_bytes / 1e9:.2f} GB for tables"
        )
