"""The greedy planner: every table in the way its cost and size ask for, placed by cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inputs.errors import InfeasibleError
from simulator.program import IntArray
from workloads.dlrm.model.columns import most_pieces
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.balance import slowest_s
from workloads.dlrm.sharding.interfaces import PLANNERS, PlanningContext
from workloads.dlrm.sharding.placing import (
    MEMORY_SHARE,
    all_tables,
    block_bytes,
    check_everywhere,
    improve_columns,
    place_columns,
    wanted_pieces,
)
from workloads.dlrm.sharding.plan import Plan, make_plan
from workloads.dlrm.sharding.shards import ColumnShards

COST_SHARES = (1.0, 0.5, 0.25)
"""Proposals: a column shard costs at most this share of a rank's mean load in any phase. Smaller shards balance better
but repeat the table's indices on more ranks, so the planner compares."""

PROPOSAL_WORK = 50_000_000
"""Shards x ranks beyond which no further proposal is made: planning takes time proportional to it."""


def greedy(tables: Tables, context: PlanningContext) -> Plan:
    """Mixed sharding.

    A table is copied to all ranks when that costs every rank less than its share of one owner's cost; cut by rows when
    even its narrowest column shard is too large or too costly for one rank; else cut by columns as far as its cost and
    size ask for. Column shards and whole tables are placed by longest processing time.

    Raises:
        InfeasibleError: the tables do not fit.
    """
    copied = _worth_copying(tables, context)
    free = context.memory_bytes - float(context.copied_bytes(tables)[copied].sum())
    stored = context.stored_bytes(tables.rows, tables.dim, tables.element_bytes)
    by_rows = ~copied & (stored / most_pieces(tables.dim) > MEMORY_SHARE * max(free, 0.0))
    by_rows |= _better_by_rows(tables, np.flatnonzero(~copied & ~by_rows), context)
    cut = np.flatnonzero(by_rows)
    free -= float(block_bytes(tables, context, cut, tables.dim[cut], context.world_size).sum())
    check_everywhere(context.memory_bytes - free, "copies and row blocks", context)
    columns = _propose(tables, np.flatnonzero(~copied & ~by_rows), context, free)
    return make_plan(
        tables,
        context.world_size,
        context.local_world_size,
        "greedy",
        columns=columns,
        row_wise=np.flatnonzero(by_rows),
        data_parallel=np.flatnonzero(copied),
    )


def _worth_copying(tables: Tables, context: PlanningContext) -> NDArray[np.bool_]:
    """Whether a table is better copied to all ranks ``[N]``; never when copies would fill a rank."""
    owner_s = context.costs.column_shard_s(all_tables(tables), tables.dim).sum(axis=1)
    worth = context.costs.data_parallel_s().sum(axis=1) < owner_s / context.world_size
    size = np.where(worth, context.copied_bytes(tables), 0)
    fits: NDArray[np.bool_] = np.cumsum(size) <= MEMORY_SHARE * context.memory_bytes
    return np.asarray(worth & fits)


def _better_by_rows(tables: Tables, table: IntArray, context: PlanningContext) -> NDArray[np.bool_]:
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
    row_blocks = np.append(0.0, np.cumsum(context.costs.row_wise_s().sum(axis=1)[table][order]))
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
        pieces = wanted_pieces(tables, table, context, free_bytes, share)
        if found and pieces.sum() * context.world_size > PROPOSAL_WORK:
            break
        try:
            columns = place_columns(tables, table, pieces, context, free_bytes)
        except InfeasibleError as error:
            failure = error
            continue
        costs = context.costs.column_shard_s(columns.table, columns.dim)
        found.append((float(slowest_s(costs, columns.rank, context.world_size).sum()), columns))
    if failure is not None and not found:
        raise failure
    return improve_columns(tables, min(found, key=lambda proposal: proposal[0])[1], context, free_bytes)


PLANNERS.add(
    "greedy",
    greedy,
    "by cost: copies of tiny tables, column shards of costly ones, row blocks of huge ones, others whole",
)
