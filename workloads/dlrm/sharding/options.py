"""Ways to shard a single table, and plans made of one for each table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.model.columns import cut_columns, most_pieces
from workloads.dlrm.model.storage import uniform_storage
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.balance import Places, improve, place
from workloads.dlrm.sharding.costs import rank_loads_s
from workloads.dlrm.sharding.interfaces import PlanningContext
from workloads.dlrm.sharding.placing import block_bytes, check_everywhere, shard_bytes
from workloads.dlrm.sharding.plan import Plan, checked
from workloads.dlrm.sharding.plan_file import ShardingType
from workloads.dlrm.sharding.shards import ColumnShards, NodeShards


@dataclass(frozen=True, slots=True, order=True)
class Option:
    """A way to shard a table: the type, and into how many column ranges."""

    kind: ShardingType
    pieces: int = 1

    @property
    def over_nodes(self) -> bool:
        """Whether rows are spread over the ranks of nodes."""
        return self.kind in ("table_row_wise", "grid_shard")


COPIED, BY_ROWS = Option("data_parallel"), Option("row_wise")


def options_of(dim: int, context: PlanningContext) -> list[Option]:
    """The ways to shard a table of ``dim`` columns: whole, in 2, 4, 8... columns, by rows, over nodes, copied."""
    most = min(int(most_pieces(np.array([dim]))[0]), context.world_size)
    found = [Option("table_wise")]
    found += [Option("column_wise", 2**k) for k in range(1, most.bit_length()) if 2**k <= most]
    found += [BY_ROWS, COPIED]
    nodes = context.world_size // context.local_world_size
    if context.rows_over_nodes and nodes > 1:
        found += [Option("table_row_wise")]
        found += [Option("grid_shard", 2**k) for k in range(1, nodes.bit_length()) if 2**k <= min(nodes, most)]
    return found


def compose(tables: Tables, context: PlanningContext, options: Sequence[Option], planner: str) -> Plan:
    """A plan with the given option for each table ``[N]``, placed by cost: shards on all ranks, on nodes, on ranks.

    Raises:
        InfeasibleError: it does not fit.
    """
    kinds = np.array([option.kind for option in options])
    pieces = np.array([option.pieces for option in options], dtype=np.int64)
    empty = Plan(tables, context.world_size, context.local_world_size, planner, uniform_storage(len(tables)))
    held = replace(
        empty, row_wise=np.flatnonzero(kinds == "row_wise"), data_parallel=np.flatnonzero(kinds == "data_parallel")
    )
    check_everywhere(float(stored_on_ranks(held, context).max()), "copies and row blocks", context)
    held = add_nodes(held, context, np.flatnonzero(np.isin(kinds, ("table_row_wise", "grid_shard"))), pieces)
    held = add_columns(held, context, np.flatnonzero(np.isin(kinds, ("table_wise", "column_wise"))), pieces)
    return checked(held)


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
    placed = NodeShards(shard, place(costs, sizes, places, hasty=context.hasty), column, dim)
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
    places = Places(*_left(plan, context))
    rank = place(costs, sizes, places, hasty=context.hasty)
    if not context.hasty:
        rank = improve(costs, sizes, rank, places)
    return replace(plan, columns=ColumnShards.joined([plan.columns, ColumnShards(shard, rank, column, dim)]))


def _left(plan: Plan, context: PlanningContext) -> tuple[FloatArray, FloatArray]:
    """Bytes free on each rank ``[P]`` and its load so far ``[P, K]``.

    Raises:
        InfeasibleError: a rank is over its memory.
    """
    used = stored_on_ranks(plan, context)
    check_everywhere(float(used.max()), "copies and row blocks", context)
    return context.memory_bytes - used, rank_loads_s(plan, context.costs)
