"""The greedy planner: every table in the way its cost and size ask for, placed by cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from inputs.errors import InfeasibleError
from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.model.columns import most_pieces, widest_range
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.admitted import smallest_shards
from workloads.dlrm.sharding.composing import compose
from workloads.dlrm.sharding.constraints import TableConstraints
from workloads.dlrm.sharding.costs import TINY_S, plan_cost_s
from workloads.dlrm.sharding.interfaces import PLANNERS, PlanningContext
from workloads.dlrm.sharding.options import BY_ROWS, COPIED, Option
from workloads.dlrm.sharding.placing import (
    MEMORY_SHARE,
    all_tables,
    block_bytes,
    check_everywhere,
    pieces_within,
    shard_bytes,
    too_much,
    wanted_pieces,
)
from workloads.dlrm.sharding.plan import Plan

COST_SHARES = (1.0, 0.5, 0.25)
"""Proposals: a column shard costs at most this share of a rank's mean load in any phase. Smaller shards balance better
but repeat the table's indices on more ranks, so the planner compares."""

MEMORY_SHARES = (MEMORY_SHARE, MEMORY_SHARE / 2, MEMORY_SHARE / 4, MEMORY_SHARE / 8)
"""Largest shares of a rank's free memory for a column shard, tried in turn until all shards fit: smaller shards leave
smaller gaps, and more tables are cut by rows, which fill all ranks equally."""

PROPOSAL_WORK = 50_000_000
"""Shards x ranks beyond which no further proposal is made: planning takes time proportional to it."""


def greedy(tables: Tables, context: PlanningContext) -> Plan:
    """Mixed sharding.

    A table is copied to all ranks if a copy costs every rank less than its share of one owner's cost. It is cut by rows
    over a node if its narrowest column shard is too large for one rank, and over all ranks if it is too large for a
    node or too costly for one rank. Other tables are cut by columns according to their cost and size. Column shards and
    whole tables are placed by longest processing time. If they do not fit, shards become smaller; the last tries copy
    no table, leave all tables whole, and cut all tables by rows.

    Where an estimate of iterations is at hand, the plan competes with plans that cut all tables but copies by rows over
    nodes: indices and pooled vectors then go to fewer peers, some of them over other streams, for a sum in each node.
    For sequences it competes with one that weighs the hottest row blocks, which send what they are asked for, and with
    one that cuts all tables by rows.

    Raises:
        InfeasibleError: the tables do not fit.
    """
    if context.least_bytes(tables) > context.world_size * context.memory_bytes:
        raise InfeasibleError(too_much(tables, context))
    if context.hasty or context.alone_s is None or not (context.cuts_over_nodes or tables.sequences):
        return _on_ranks(tables, context)
    attempts: list[Callable[[], Plan]] = [partial(_on_ranks, tables, context)]
    if tables.sequences:
        attempts += [partial(_on_ranks, tables, context, hottest=True), partial(_by_rows, tables, context)]
    found: list[tuple[float, Plan]] = []
    failure: InfeasibleError | None = None
    for make in attempts:
        try:
            plan = make()
            found.append((context.alone_s(plan), plan))
        except InfeasibleError as error:
            failure = failure or error
    if context.cuts_over_nodes:
        found += _on_nodes(tables, context, context.alone_s)
    if not found:
        raise failure or InfeasibleError(too_much(tables, context))
    return min(found, key=lambda proposal: proposal[0])[1]


def _by_rows(tables: Tables, context: PlanningContext) -> Plan:
    """Every table cut by rows over all ranks.

    Raises:
        InfeasibleError: the blocks do not fit.
    """
    return compose(tables, context, [BY_ROWS] * len(tables), "greedy")


def _on_ranks(tables: Tables, context: PlanningContext, *, hottest: bool = False) -> Plan:
    """The plan that leaves tables whole, or in columns, where it can.

    Args:
        hottest: whether a row block costs as much as the hottest one of its table.

    Raises:
        InfeasibleError: no attempt fits.
    """
    failure = InfeasibleError("no way to cut the tables was tried")
    mixed: list[Callable[[], Plan]] = [
        partial(_mixed, tables, context, share, hottest=hottest) for share in MEMORY_SHARES
    ]
    last: list[Callable[[], Plan]] = [partial(_mixed, tables, context, MEMORY_SHARES[-1], only_size=True)]
    ends = (Option("table_wise"), BY_ROWS)
    last += [partial(compose, tables, context, [option] * len(tables), "greedy") for option in ends]
    if context.constraints is not None:
        last.append(partial(_smallest, tables, context, context.constraints))
    for make in (*mixed, *last):
        try:
            return make()
        except InfeasibleError as error:
            failure = error
    raise failure


def _smallest(tables: Tables, context: PlanningContext, limits: TableConstraints) -> Plan:
    """Constrained tables in their smallest shards, others cut by rows.

    Raises:
        InfeasibleError: the shards do not fit.
    """
    return compose(tables, context, smallest_shards(tables, context, limits), "greedy")


def _on_nodes(tables: Tables, context: PlanningContext, alone_s: Callable[[Plan], float]) -> list[tuple[float, Plan]]:
    """Plans with every table copied or over the ranks of nodes, and their times; cut more finely while that pays."""
    found: list[tuple[float, Plan]] = []
    copied = _worth_copying(tables, context)
    table = np.flatnonzero(~copied)
    limit = MEMORY_SHARE * (context.memory_bytes - float(context.copied_bytes(tables)[copied].sum()))
    local, nodes = context.local_world_size, context.world_size // context.local_world_size
    cost = context.costs.node_shard_s(table, tables.dim[table])
    share = (cost / np.maximum(cost.sum(axis=0) / nodes, TINY_S)).max(axis=1, initial=0.0)
    most = np.minimum(most_pieces(tables.dim[table]), nodes)
    by_size = pieces_within(tables, table, context, limit, local)
    for cost_share in COST_SHARES:
        pieces = np.clip(np.maximum(np.ceil(share / cost_share), by_size), 1, most).astype(np.int64)
        options = [COPIED] * len(tables)
        for number, count in zip(table.tolist(), pieces.tolist(), strict=True):
            options[number] = Option("grid_shard" if count > 1 else "table_row_wise", count)
        try:
            plan = compose(tables, context, options, "greedy")
        except InfeasibleError:
            break
        found.append((alone_s(plan), plan))
        if len(found) > 1 and found[-1][0] >= found[-2][0]:
            break
    return found


def _mixed(
    tables: Tables, context: PlanningContext, memory_share: float, *, only_size: bool = False, hottest: bool = False
) -> Plan:
    """The cheapest plan in which each shard fills at most a share of a rank's free memory.

    Args:
        tables: all tables.
        context: the planner's inputs.
        memory_share: largest part of a rank's free memory that one shard fills.
        only_size: whether only size decides which tables are on all ranks.
        hottest: whether a row block costs as much as the hottest one of its table.

    Raises:
        InfeasibleError: the tables do not fit with this share.
    """
    none = np.zeros(len(tables), dtype=np.bool_)
    copied = none if only_size else _worth_copying(tables, context)
    free = context.memory_bytes - float(context.copied_bytes(tables)[copied].sum())
    everything, narrow = all_tables(tables), np.full(len(tables), context.world_size)
    narrowest = shard_bytes(tables, context, everything, widest_range(tables.dim, narrow))
    huge = ~copied & (narrowest > memory_share * max(free, 0.0))
    over_nodes = _pieces_on_nodes(tables, np.flatnonzero(huge), context, memory_share * free)
    hot = none if only_size else _better_by_rows(tables, np.flatnonzero(~copied & ~huge), context, hottest=hottest)
    by_rows = hot | (huge & (over_nodes == 0))
    free -= float(block_bytes(tables, context, everything, tables.dim, context.world_size)[by_rows].sum())
    check_everywhere(context.memory_bytes - free, "copies and row blocks", context)
    options = [Option("grid_shard" if n > 1 else "table_row_wise", int(n)) for n in over_nodes]
    options = [COPIED if copied[t] else BY_ROWS if by_rows[t] else option for t, option in enumerate(options)]
    return _best(tables, np.flatnonzero(~copied & ~by_rows & (over_nodes == 0)), context, options, free, memory_share)


def _pieces_on_nodes(tables: Tables, table: IntArray, context: PlanningContext, limit_bytes: float) -> IntArray:
    """Number of column ranges of tables that are placed on nodes and cut by rows there; 0 for other tables ``[N]``.

    A table over the ranks of a node has the vectors of all samples on these ranks only; a table over all ranks has them
    on all ranks. Tables outside device memory stay on all ranks, which then need equal amounts of host memory.
    """
    found, nodes = np.zeros(len(tables), dtype=np.int64), context.world_size // context.local_world_size
    if not context.rows_over_nodes or nodes < 2 or context.storage is not None or not len(table):
        return found
    pieces = np.minimum(pieces_within(tables, table, context, limit_bytes, context.local_world_size), nodes)
    widest = widest_range(tables.dim[table], pieces)
    fits = block_bytes(tables, context, table, widest, context.local_world_size) <= limit_bytes
    found[table] = np.where(fits, pieces, 0)
    return found


def _worth_copying(tables: Tables, context: PlanningContext) -> NDArray[np.bool_]:
    """Whether a table is better copied to all ranks ``[N]``; never when copies would fill a rank."""
    owner_s = context.costs.column_shard_s(all_tables(tables), tables.dim).sum(axis=1)
    worth = context.costs.data_parallel_s().sum(axis=1) < owner_s / context.world_size
    size = np.where(worth, context.copied_bytes(tables), 0)
    fits: NDArray[np.bool_] = np.cumsum(size) <= MEMORY_SHARE * context.memory_bytes
    return np.asarray(worth & fits)


def _better_by_rows(
    tables: Tables, table: IntArray, context: PlanningContext, *, hottest: bool = False
) -> NDArray[np.bool_]:
    """Whether a table is better cut by rows because one rank would be busy with a single column shard for too long.

    Of the candidates ``table`` the h hottest are chosen so that the slowest rank is fastest: their row blocks cost all
    ranks, the hottest of the others or the mean of the others bounds the rest.
    """
    dim = tables.dim[table]
    narrow = context.costs.column_shard_s(table, -(-dim // most_pieces(dim))).sum(axis=1)
    whole = context.costs.column_shard_s(table, dim).sum(axis=1)
    order = np.argsort(-narrow, kind="stable")
    slowest = np.append(narrow[order], 0.0)
    mean = np.append(np.cumsum(whole[order][::-1])[::-1], 0.0) / context.world_size
    row_blocks = np.append(0.0, np.cumsum(_row_block_s(tables, context, hottest=hottest)[table][order]))
    chosen = int(np.argmin(row_blocks + np.maximum(slowest, mean)))
    hot = np.zeros(len(tables), dtype=np.bool_)
    hot[table[order[:chosen]]] = True
    return hot


def _row_block_s(tables: Tables, context: PlanningContext, *, hottest: bool) -> FloatArray:
    """Seconds of a mean row block of each table, or of the hottest one ``[N]``."""
    seconds = context.costs.row_wise_s()
    if hottest:
        seconds = seconds * context.costs.block_weights(all_tables(tables), context.world_size).max(axis=1)
    return np.asarray(seconds.sum(axis=1))


def _best(
    tables: Tables,
    table: IntArray,
    context: PlanningContext,
    options: list[Option],
    free_bytes: float,
    memory_share: float,
) -> Plan:
    """The cheapest of the plans that cut ``table`` into some numbers of columns and other tables by their ``options``.

    Raises:
        InfeasibleError: none of them fits.
    """
    found: list[tuple[float, Plan]] = []
    failure: InfeasibleError | None = None
    for share in COST_SHARES[:1] if context.hasty else COST_SHARES:
        pieces = wanted_pieces(tables, table, context, free_bytes, share, memory_share)
        if found and pieces.sum() * context.world_size > PROPOSAL_WORK:
            break
        for number, count in zip(table.tolist(), pieces.tolist(), strict=True):
            options[number] = Option("column_wise", count)
        try:
            plan = compose(tables, context, options, "greedy")
        except InfeasibleError as error:
            failure = error
            continue
        found.append((plan_cost_s(plan, context.costs), plan))
    if failure is not None and not found:
        raise failure
    return min(found, key=lambda proposal: proposal[0])[1]


def mixed(tables: Tables, context: PlanningContext) -> Plan:
    """The plan of `greedy` without its rivals over nodes, as ZionEX's planner had it (arXiv 2104.05158).

    Raises:
        InfeasibleError: the tables do not fit.
    """
    return replace(_on_ranks(tables, context), planner="mixed")


PLANNERS.add(
    "greedy",
    greedy,
    "by cost: copies of tiny tables, column shards of costly ones, row blocks of huge ones, others whole or over nodes",
)
PLANNERS.add("mixed", mixed, "as greedy, with tables over nodes only where they are huge (ZionEX)")
