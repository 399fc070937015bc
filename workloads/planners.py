"""The planners that ship: one sharding type for all tables, and the greedy mix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from inputs.errors import InfeasibleError
from simulator.program import IntArray
from workloads.balance import improve, place, slowest_s
from workloads.columns import cut_columns, most_pieces
from workloads.plan import ColumnShards, Plan, make_plan
from workloads.planning import PLANNERS, PlanningContext
from workloads.tables import Tables

COST_SHARES = (1.0, 0.5, 0.25)
"""Proposals of the greedy planner: a column shard costs at most this share of a rank's mean load in any phase. Smaller
shards balance better but repeat the table's indices on more ranks, so the planner compares."""

PROPOSAL_WORK = 50_000_000
"""Shards x ranks beyond which no further proposal is made: planning takes time proportional to it."""

TINY_S = 1e-30
"""Stands for no time where a share of a phase without cost is asked for, seconds."""

MEMORY_SHARE = 0.5
"""A shard of the greedy planner fills at most this share of a rank's memory for tables."""


def table_wise(tables: Tables, context: PlanningContext) -> Plan:
    """Whole tables, longest processing time first.

    Raises:
        InfeasibleError: the tables do not fit.
    """
    whole = np.ones(len(tables), dtype=np.int64)
    columns = _place_columns(tables, _all(tables), whole, context, context.memory_bytes)
    columns = _improve(tables, columns, context, context.memory_bytes)
    return make_plan(tables, context.world_size, "table_wise", columns=columns)


def column_wise(tables: Tables, context: PlanningContext) -> Plan:
    """Every table in at least two pieces (where its dimension allows).

    Raises:
        InfeasibleError: the shards do not fit.
    """
    pieces = np.maximum(2, _pieces(tables, _all(tables), context, context.memory_bytes, COST_SHARES[0]))
    columns = _place_columns(tables, _all(tables), pieces, context, context.memory_bytes)
    columns = _improve(tables, columns, context, context.memory_bytes)
    return make_plan(tables, context.world_size, "column_wise", columns=columns)


def row_wise(tables: Tables, context: PlanningContext) -> Plan:
    """Row blocks on all ranks.

    Raises:
        InfeasibleError: the blocks do not fit.
    """
    _check_everywhere(_block_bytes(tables, _all(tables), context), "row blocks of all tables", context)
    return make_plan(tables, context.world_size, "row_wise", row_wise=_all(tables))


def data_parallel(tables: Tables, context: PlanningContext) -> Plan:
    """Copies on all ranks.

    Raises:
        InfeasibleError: the copies do not fit.
    """
    _check_everywhere(_copy_bytes(tables, _all(tables), context), "copies of all tables", context)
    return make_plan(tables, context.world_size, "data_parallel", data_parallel=_all(tables))


def greedy(tables: Tables, context: PlanningContext) -> Plan:
    """Mixed sharding.

    A table is copied to all ranks when that costs every rank less than its share of one owner's cost; cut by rows when
    even its narrowest column shard is too large or too costly for one rank; else cut by columns as far as its cost and
    size ask for. What is cut by columns or whole is placed by longest processing time.

    Raises:
        InfeasibleError: the tables do not fit.
    """
    copied = _worth_copying(tables, context)
    free = context.memory_bytes - _copy_bytes(tables, np.flatnonzero(copied), context)
    stored = context.stored_bytes(tables.rows, tables.dim, tables.element_bytes)
    by_rows = ~copied & (stored / most_pieces(tables.dim) > MEMORY_SHARE * max(free, 0.0))
    by_rows |= _too_hot(tables, np.flatnonzero(~copied & ~by_rows), context)
    free -= _block_bytes(tables, np.flatnonzero(by_rows), context)
    _check_everywhere(context.memory_bytes - free, "copies and row blocks", context)
    columns = _propose(tables, np.flatnonzero(~copied & ~by_rows), context, free)
    return make_plan(
        tables,
        context.world_size,
        "greedy",
        columns=columns,
        row_wise=np.flatnonzero(by_rows),
        data_parallel=np.flatnonzero(copied),
    )


def _all(tables: Tables) -> IntArray:
    return np.arange(len(tables), dtype=np.int64)


def _worth_copying(tables: Tables, context: PlanningContext) -> NDArray[np.bool_]:
    """Whether a table is better copied to all ranks ``[N]``; never when copies would fill a rank."""
    owner_s = context.costs.column_shard_s(_all(tables), tables.dim).sum(axis=1)
    worth = context.costs.data_parallel_s() < owner_s / context.world_size
    size = np.where(worth, context.copied_bytes(tables), 0)
    fits: NDArray[np.bool_] = np.cumsum(size) <= MEMORY_SHARE * context.memory_bytes
    return np.asarray(worth & fits)


def _too_hot(tables: Tables, table: IntArray, context: PlanningContext) -> NDArray[np.bool_]:
    """Whether a table is better cut by rows because one rank would be busy with a single column shard for too long.

    Of the candidates ``table`` the h hottest are chosen so that the slowest rank is fastest: their row blocks cost all
    ranks, the hottest of the others or the mean of the others bounds the rest.
    """
    dim = tables.dim[table]
    narrow = context.costs.column_shard_s(table, -(-dim // most_pieces(dim))).sum(axis=1)
    whole = context.costs.column_shard_s(table, dim).sum(axis=1)
    order = np.argsort(-narrow, kind="stable")
    hottest = np.append(narrow[order], 0.0)
    mean = np.append(np.cumsum(whole[order][::-1])[::-1], 0.0) / context.world_size
    row_blocks = np.append(0.0, np.cumsum(context.costs.row_wise_s()[table][order]))
    chosen = int(np.argmin(row_blocks + np.maximum(hottest, mean)))
    hot = np.zeros(len(tables), dtype=np.bool_)
    hot[table[order[:chosen]]] = True
    return hot


def _propose(tables: Tables, table: IntArray, context: PlanningContext, free_bytes: float) -> ColumnShards:
    """The best of some ways to cut and place ``table`` by columns, improved.

    Raises:
        InfeasibleError: none of them fits.
    """
    found: list[tuple[float, ColumnShards]] = []
    failure: InfeasibleError | None = None
    for share in COST_SHARES:
        pieces = _pieces(tables, table, context, free_bytes, share)
        if found and pieces.sum() * context.world_size > PROPOSAL_WORK:
            break
        try:
            columns = _place_columns(tables, table, pieces, context, free_bytes)
        except InfeasibleError as error:
            failure = error
            continue
        costs = context.costs.column_shard_s(columns.table, columns.dim)
        found.append((float(slowest_s(costs, columns.rank, context.world_size).sum()), columns))
    if failure is not None and not found:
        raise failure
    return _improve(tables, min(found, key=lambda proposal: proposal[0])[1], context, free_bytes)


def _pieces(
    tables: Tables, table: IntArray, context: PlanningContext, free_bytes: float, cost_share: float
) -> IntArray:
    """Column shards that cost and size ask for ``[len(table)]``."""
    cost = context.costs.column_shard_s(table, tables.dim[table])
    share = cost / np.maximum(cost.sum(axis=0) / context.world_size, TINY_S)
    stored = context.stored_bytes(tables.rows, tables.dim, tables.element_bytes)[table]
    wanted = np.maximum(share.max(axis=1, initial=0.0) / cost_share, stored / max(MEMORY_SHARE * free_bytes, 1.0))
    limit = np.minimum(most_pieces(tables.dim[table]), context.world_size)
    return np.asarray(np.clip(np.ceil(wanted), 1, limit), dtype=np.int64)


def _place_columns(
    tables: Tables, table: IntArray, pieces: IntArray, context: PlanningContext, free_bytes: float
) -> ColumnShards:
    """Cut and place tables; raises InfeasibleError when they do not fit."""
    shard_table, column, dim = cut_columns(table, tables.dim[table], pieces)
    sizes = context.stored_bytes(tables.rows[shard_table], dim, tables.element_bytes[shard_table])
    costs = context.costs.column_shard_s(shard_table, dim)
    return ColumnShards(shard_table, place(costs, sizes, free_bytes, context.world_size), column, dim)


def _improve(tables: Tables, columns: ColumnShards, context: PlanningContext, free_bytes: float) -> ColumnShards:
    """Move and swap shards of the slowest ranks."""
    table, dim = columns.table, columns.dim
    sizes = context.stored_bytes(tables.rows[table], dim, tables.element_bytes[table])
    costs = context.costs.column_shard_s(table, dim)
    return replace(columns, rank=improve(costs, sizes, columns.rank, free_bytes, context.world_size))


def _block_bytes(tables: Tables, table: IntArray, context: PlanningContext) -> float:
    """Bytes of the row blocks of these tables on the fullest rank."""
    block = -(-tables.rows[table] // context.world_size)
    return float(context.stored_bytes(block, tables.dim[table], tables.element_bytes[table]).sum())


def _copy_bytes(tables: Tables, table: IntArray, context: PlanningContext) -> float:
    """Bytes of the copies of these tables on each rank."""
    return float(context.copied_bytes(tables)[table].sum())


def _check_everywhere(needed_bytes: float, what: str, context: PlanningContext) -> None:
    if needed_bytes > context.memory_bytes:
        raise InfeasibleError(
            f"{what} need {needed_bytes / 1e9:.2f} GB on every rank, "
            f"a rank has {context.memory_bytes / 1e9:.2f} GB for tables"
        )


PLANNERS.add("table_wise", table_wise, "every table whole on one rank, balanced by cost")
PLANNERS.add("column_wise", column_wise, "every table cut into column shards, more where it is costly or large")
PLANNERS.add("row_wise", row_wise, "every table cut into equal row blocks over all ranks")
PLANNERS.add("data_parallel", data_parallel, "a copy of every table on every rank, gradients by all_reduce")
PLANNERS.add(
    "greedy", greedy, "copies of tiny tables, column shards of costly ones, row blocks of huge ones, others whole"
)
