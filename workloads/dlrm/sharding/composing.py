"""Plans made of an option for each table, placed by cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.model.columns import cut_columns
from workloads.dlrm.model.storage import uniform_storage
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.admitted import admitted
from workloads.dlrm.sharding.balance import Places, improve, place
from workloads.dlrm.sharding.costs import rank_loads_s
from workloads.dlrm.sharding.interfaces import PlanningContext
from workloads.dlrm.sharding.options import Option
from workloads.dlrm.sharding.placing import all_tables, block_bytes, check_everywhere, shard_bytes
from workloads.dlrm.sharding.plan import Plan, checked
from workloads.dlrm.sharding.shards import ColumnShards, NodeShards
from workloads.dlrm.sharding.together import JoinedShards, joined


def compose(tables: Tables, context: PlanningContext, options: Sequence[Option], planner: str) -> Plan:
    """A plan with the given option for each table ``[N]``, placed by cost: shards on all ranks, on nodes, on ranks.

    Tables whose constraints do not allow their option get one that they allow.

    Raises:
        InfeasibleError: it does not fit.
    """
    empty = Plan(tables, context.world_size, context.local_world_size, planner, uniform_storage(len(tables)))
    return checked(add_tables(empty, context, all_tables(tables), admitted(tables, context, options)))


def add_tables(plan: Plan, context: PlanningContext, table: IntArray, options: Sequence[Option]) -> Plan:
    """The (unchecked) plan with ``table [...]`` in addition, placed by cost.

    Args:
        options: the option of each of all tables ``[N]``.

    Raises:
        InfeasibleError: there is no room.
    """
    kinds = np.array([options[number].kind for number in table.tolist()], dtype=np.str_)
    pieces = np.array([option.pieces for option in options], dtype=np.int64)
    held = replace(
        plan,
        row_wise=np.concatenate([plan.row_wise, table[kinds == "row_wise"]]),
        data_parallel=np.concatenate([plan.data_parallel, table[kinds == "data_parallel"]]),
    )
    check_everywhere(float(stored_on_ranks(held, context).max()), "copies and row blocks", context)
    held = add_nodes(held, context, table[np.isin(kinds, ("table_row_wise", "grid_shard"))], pieces)
    held = add_columns_in_nodes(held, context, table[kinds == "table_column_wise"], pieces)
    return add_columns(held, context, table[np.isin(kinds, ("table_wise", "column_wise"))], pieces)


def stored_on_ranks(plan: Plan, context: PlanningContext) -> FloatArray:
    """Bytes of tables on each rank, as planners count them ``[P]``."""
    tables, columns, nodes = plan.tables, plan.columns, plan.nodes
    sizes = shard_bytes(tables, context, columns.table, columns.dim)
    by_rank = np.bincount(columns.rank, weights=sizes, minlength=plan.world_size)
    blocks = block_bytes(tables, context, nodes.table, nodes.dim, plan.local_world_size)
    by_node = np.bincount(nodes.node, weights=blocks, minlength=plan.node_count)
    rows = block_bytes(tables, context, plan.row_wise, tables.dim[plan.row_wise], plan.world_size).sum()
    copies = context.copied_bytes(tables)[plan.data_parallel].sum()
    on_nodes = np.repeat(by_node, plan.local_world_size)[: plan.world_size]
    return np.asarray(by_rank + on_nodes + float(rows + copies), dtype=np.float64)


def add_nodes(plan: Plan, context: PlanningContext, table: IntArray, pieces: IntArray) -> Plan:
    """The (unchecked) plan with ``table [...]`` on nodes, cut into ``pieces [N]`` column ranges each.

    Raises:
        InfeasibleError: a node has no room.
    """
    if not len(table):
        return plan
    shard, column, dim = cut_columns(table, plan.tables.dim[table], pieces[table])
    costs = context.costs.node_shard_s(shard, dim)
    sizes = block_bytes(plan.tables, context, shard, dim, plan.local_world_size)
    room, loads = _left(plan, context)
    by_node = (plan.node_count, plan.local_world_size)
    places = Places(room.reshape(by_node).min(axis=1), loads.reshape(*by_node, -1).mean(axis=1))
    units = joined(context.constraints, shard, costs, sizes, over="nodes")
    node = place(units.costs, units.sizes, places, hasty=context.hasty, allowed=units.allowed)
    placed = NodeShards(shard, node[units.unit], column, dim)
    return replace(plan, nodes=NodeShards.joined([plan.nodes, placed]))


def add_columns(plan: Plan, context: PlanningContext, table: IntArray, pieces: IntArray) -> Plan:
    """The (unchecked) plan with ``table [...]`` in ``pieces [N]`` column shards each, where they fit best.

    Raises:
        InfeasibleError: a rank has no room.
    """
    if not len(table):
        return plan
    shard, column, dim = cut_columns(table, plan.tables.dim[table], pieces[table])
    costs, sizes = context.costs.column_shard_s(shard, dim), shard_bytes(plan.tables, context, shard, dim)
    units = joined(context.constraints, shard, costs, sizes)
    rank = _placed(units, plan, context)[units.unit]
    return replace(plan, columns=ColumnShards.joined([plan.columns, ColumnShards(shard, rank, column, dim)]))


def add_columns_in_nodes(plan: Plan, context: PlanningContext, table: IntArray, pieces: IntArray) -> Plan:
    """The (unchecked) plan with ``table [...]`` in ``pieces [N]`` column ranges each, on the ranks of one node each.

    Raises:
        InfeasibleError: a node or a rank has no room.
    """
    if not len(table):
        return plan
    shard, column, dim = cut_columns(table, plan.tables.dim[table], pieces[table])
    costs, sizes = context.costs.column_shard_s(shard, dim), shard_bytes(plan.tables, context, shard, dim)
    room, loads = _left(plan, context)
    by_node = (plan.node_count, plan.local_world_size)
    places = Places(room.reshape(by_node).sum(axis=1), loads.reshape(*by_node, -1).sum(axis=1))
    whole = joined(context.constraints, shard, costs, sizes, over="tables", pieces=pieces)
    node = place(whole.costs, whole.sizes, places, hasty=context.hasty, allowed=whole.allowed)[whole.unit]
    units = joined(context.constraints, shard, costs, sizes)
    on_node = np.zeros((len(units.sizes), plan.world_size), dtype=np.bool_)
    on_node[units.unit] = np.arange(plan.world_size) // plan.local_world_size == node[:, None]
    both = on_node if units.allowed is None else on_node & units.allowed
    rank = _placed(replace(units, allowed=both), plan, context)[units.unit]
    return replace(
        plan,
        columns=ColumnShards.joined([plan.columns, ColumnShards(shard, rank, column, dim)]),
        table_column_wise=np.concatenate([plan.table_column_wise, table]),
    )


def _placed(units: JoinedShards, plan: Plan, context: PlanningContext) -> IntArray:
    """Rank of each unit beside the shards of a plan ``[U]``.

    Raises:
        InfeasibleError: a rank has no room.
    """
    places = Places(*_left(plan, context))
    rank = place(units.costs, units.sizes, places, hasty=context.hasty, allowed=units.allowed)
    if context.hasty:
        return rank
    return improve(units.costs, units.sizes, rank, places, allowed=units.allowed)


def _left(plan: Plan, context: PlanningContext) -> tuple[FloatArray, FloatArray]:
    """Bytes free on each rank ``[P]`` and its load so far ``[P, K]``.

    Raises:
        InfeasibleError: a rank is over its memory.
    """
    used = stored_on_ranks(plan, context)
    check_everywhere(float(used.max()), "copies and row blocks", context)
    return context.memory_bytes - used, rank_loads_s(plan, context.costs)
