"""Plans that differ from a plan in one decision: the next candidates of a search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from inputs.errors import InfeasibleError
from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.sharding.composing import add_columns, add_tables, stored_on_ranks
from workloads.dlrm.sharding.constraints import ALONE
from workloads.dlrm.sharding.costs import rank_loads_s
from workloads.dlrm.sharding.interfaces import PlanningContext
from workloads.dlrm.sharding.obeyed import broken
from workloads.dlrm.sharding.options import Option, options_for
from workloads.dlrm.sharding.plan import Plan, checked

RESHARD_SHARE, MOVE_SHARE, SWAP_SHARE = 0.5, 0.2, 0.2
"""Probabilities that a neighbour reshards one table, moves one shard, or swaps two; otherwise it gives
up one kind of sharding, which saves that kind's kernels and collectives."""

ANYWHERE_SHARE = 0.3
"""Probability that any table is resharded, not one that the slowest rank works on."""


def neighbour(plan: Plan, context: PlanningContext, draw: np.random.Generator) -> Plan | None:
    """A plan that differs in one decision; None when the draw leads nowhere.

    The rank that keeps the others waiting in a phase (drawn by how long the phase lasts) gives up the table or shard.
    """
    loads = rank_loads_s(plan, context.costs)
    slowest = int(loads[:, _drawn(loads.max(axis=0), draw)].argmax())
    kind = draw.random()
    try:
        if kind < RESHARD_SHARE or not len(plan.columns):
            found = _resharded(plan, context, slowest, draw)
        elif kind < RESHARD_SHARE + MOVE_SHARE:
            found = _moved(plan, context, slowest, loads.sum(axis=1), draw)
        elif kind < RESHARD_SHARE + MOVE_SHARE + SWAP_SHARE:
            found = _swapped(plan, context, slowest, draw)
        else:
            found = _without_kind(plan, context, draw)
    except InfeasibleError:
        return None
    if found is None or stored_on_ranks(found, context).max() > context.memory_bytes:
        return None
    limits = context.constraints
    if limits is not None and any(broken(found, limits)):
        return None
    return checked(found)


def _drawn(weights: FloatArray, draw: np.random.Generator) -> int:
    """A position, with probability proportional to its weight."""
    total = np.cumsum(weights)
    return int(min(np.searchsorted(total, draw.random() * total[-1], side="right"), len(weights) - 1))


def _resharded(plan: Plan, context: PlanningContext, rank: int, draw: np.random.Generator) -> Plan | None:
    """The plan with another option for a table of ``rank``, or for any table."""
    mine = _tables_on(plan, rank)
    anywhere = not len(mine) or draw.random() < ANYWHERE_SHARE
    table = int(draw.integers(len(plan.tables)) if anywhere else draw.choice(mine))
    now = option_of(plan, table)
    others = [option for option in options_for(plan.tables, context, table) if option != now]
    if not others:
        return None
    return with_option(plan, table, others[draw.integers(len(others))], context)


def _tables_on(plan: Plan, rank: int) -> IntArray:
    """Tables that are not on every rank, of which ``rank`` holds something, each as often as it has shards there."""
    node = rank // plan.local_world_size
    columns, nodes = plan.columns, plan.nodes
    return np.concatenate([columns.table[columns.rank == rank], nodes.table[nodes.node == node]])


def option_of(plan: Plan, table: int) -> Option:
    """Sharding of a table; `options_in` is faster for many, and slower for one."""
    pieces = int((plan.columns.table == table).sum() + (plan.nodes.table == table).sum())
    return Option(plan.sharding_types[table], max(1, pieces))


def options_in(plan: Plan) -> list[Option]:
    """Sharding of each table ``[N]``."""
    pieces = np.bincount(np.concatenate([plan.columns.table, plan.nodes.table]), minlength=len(plan.tables))
    return [Option(*made) for made in zip(plan.sharding_types, np.maximum(pieces, 1).tolist(), strict=True)]


def with_option(plan: Plan, table: int, option: Option, context: PlanningContext) -> Plan:
    """The (unchecked) plan with one table, and those on the same ranks, resharded, the others where they are.

    Raises:
        InfeasibleError: there is no room for it.
    """
    limits = context.constraints
    members = np.array([table]) if limits is None else limits.set_of(table)
    return add_tables(without(plan, members), context, members, [option] * len(plan.tables))


def without(plan: Plan, table: IntArray) -> Plan:
    """The (unchecked) plan without the shards of tables ``[...]``."""
    return replace(
        plan,
        columns=plan.columns.at(~np.isin(plan.columns.table, table)),
        nodes=plan.nodes.at(~np.isin(plan.nodes.table, table)),
        row_wise=plan.row_wise[~np.isin(plan.row_wise, table)],
        data_parallel=plan.data_parallel[~np.isin(plan.data_parallel, table)],
        table_column_wise=plan.table_column_wise[~np.isin(plan.table_column_wise, table)],
    )


def _without_kind(plan: Plan, context: PlanningContext, draw: np.random.Generator) -> Plan | None:
    """The plan with all tables that are copied, cut by rows, or on nodes, whole or in halves instead."""
    kinds = [np.unique(part) for part in (plan.row_wise, plan.data_parallel, plan.nodes.table) if len(part)]
    if not kinds:
        return None
    given_up = kinds[draw.integers(len(kinds))]
    plan = without(plan, given_up)
    return add_columns(plan, context, given_up, np.full(len(plan.tables), draw.integers(1, 3)))


def _moved(plan: Plan, context: PlanningContext, rank: int, load: FloatArray, draw: np.random.Generator) -> Plan | None:
    """The plan with a shard of ``rank`` on another rank, rather one with little to do."""
    mine = _movable(plan, plan.columns.rank == rank)
    if not len(mine):
        return None
    target = _drawn(load.max() - load, draw)
    return _put(plan, context, {int(draw.choice(mine)): target})


def _swapped(plan: Plan, context: PlanningContext, rank: int, draw: np.random.Generator) -> Plan | None:
    """The plan with a shard of ``rank`` and one of another rank in each other's place."""
    mine, others = _movable(plan, plan.columns.rank == rank), _movable(plan, plan.columns.rank != rank)
    if not len(mine) or not len(others):
        return None
    one, other = int(draw.choice(mine)), int(draw.choice(others))
    return _put(plan, context, {one: int(plan.columns.rank[other]), other: rank})


def _movable(plan: Plan, where: IntArray) -> IntArray:
    """Column shards that may go to any rank."""
    return np.flatnonzero(where & ~np.isin(plan.columns.table, plan.table_column_wise))


def _put(plan: Plan, context: PlanningContext, ranks: dict[int, int]) -> Plan:
    """The plan with shards, and the shards that go with them, on other ranks."""
    rank, limits = plan.columns.rank.copy(), context.constraints
    for shard, target in ranks.items():
        table = int(plan.columns.table[shard])
        if limits is None or limits.together[table] == ALONE:
            rank[shard] = target
            continue
        mates = np.isin(plan.columns.table, limits.set_of(table)) & (plan.columns.rank == plan.columns.rank[shard])
        rank[mates] = target
    return replace(plan, columns=replace(plan.columns, rank=rank))
