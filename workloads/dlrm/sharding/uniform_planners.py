"""Planners that shard all tables in one way."""

from __future__ import annotations

import numpy as np

from inputs.errors import InfeasibleError
from simulator.program import IntArray
from workloads.dlrm.model.columns import cut_columns, most_pieces
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.balance import Places, place
from workloads.dlrm.sharding.interfaces import PHASES, PLANNERS, PlanningContext
from workloads.dlrm.sharding.placing import (
    MEMORY_SHARE,
    all_tables,
    block_bytes,
    check_everywhere,
    improve_columns,
    pieces_within,
    place_columns,
    shard_bytes,
    wanted_pieces,
)
from workloads.dlrm.sharding.plan import Plan, make_plan
from workloads.dlrm.sharding.shards import ColumnShards, NodeShards


def table_wise(tables: Tables, context: PlanningContext) -> Plan:
    """Whole tables, longest processing time first.

    Raises:
        InfeasibleError: the tables do not fit.
    """
    return _by_columns(tables, context, "table_wise", np.ones(len(tables), dtype=np.int64))


def column_wise(tables: Tables, context: PlanningContext) -> Plan:
    """Every table in at least two pieces (where its dimension allows).

    Raises:
        InfeasibleError: the shards do not fit.
    """
    return _by_columns(tables, context, "column_wise", _two_or_more(tables, context))


def row_wise(tables: Tables, context: PlanningContext) -> Plan:
    """Row blocks on all ranks.

    Raises:
        InfeasibleError: the blocks do not fit.
    """
    blocks = block_bytes(tables, context, all_tables(tables), tables.dim, context.world_size)
    check_everywhere(float(blocks.sum()), "row blocks of all tables", context)
    return make_plan(tables, context.world_size, context.local_world_size, "row_wise", row_wise=all_tables(tables))


def table_row_wise(tables: Tables, context: PlanningContext) -> Plan:
    """Each table by rows over the ranks of one node, nodes balanced by cost.

    Raises:
        InfeasibleError: the blocks do not fit, or the nodes are not equal.
    """
    return _by_nodes(tables, context, "table_row_wise", np.ones(len(tables), dtype=np.int64))


def grid_shard(tables: Tables, context: PlanningContext) -> Plan:
    """Each table in at least two column ranges (where its dimension allows), each by rows over the ranks of a node.

    Raises:
        InfeasibleError: the blocks do not fit, or the nodes are not equal.
    """
    everything, nodes, local = all_tables(tables), _nodes(context), context.local_world_size
    by_size = pieces_within(tables, everything, context, MEMORY_SHARE * context.memory_bytes, local)
    pieces = np.minimum(np.maximum(by_size, np.maximum(2, _two_or_more(tables, context) // local)), nodes)
    return _by_nodes(tables, context, "grid_shard", pieces)


def table_column_wise(tables: Tables, context: PlanningContext) -> Plan:
    """Each table in column ranges on the ranks of one node: nodes are balanced by cost, then ranks within them.

    If the ranges do not fit, each table has as many as its columns and the node allow.

    Raises:
        InfeasibleError: the shards do not fit, or the nodes are not equal.
    """
    _require_pooled(tables, "table_column_wise")
    local, nodes = context.local_world_size, _nodes(context)
    try:
        return _in_nodes(tables, context, np.minimum(_two_or_more(tables, context), local), nodes)
    except InfeasibleError:
        return _in_nodes(tables, context, np.minimum(most_pieces(tables.dim), local), nodes)


def _in_nodes(tables: Tables, context: PlanningContext, pieces: IntArray, nodes: int) -> Plan:
    """Each table in ``pieces [N]`` column ranges on the ranks of one node.

    Raises:
        InfeasibleError: the shards do not fit.
    """
    local = context.local_world_size
    table, column, dim = cut_columns(all_tables(tables), tables.dim, pieces)
    costs, sizes = context.costs.column_shard_s(table, dim), shard_bytes(tables, context, table, dim)
    per_table = np.zeros((len(tables), costs.shape[1]))
    np.add.at(per_table, table, costs)
    bytes_per_table = np.bincount(table, weights=sizes, minlength=len(tables)).astype(np.int64)
    node = place(per_table, bytes_per_table, Places.equal(context.memory_bytes * local, nodes, len(PHASES)))
    rank = np.empty_like(table)
    for number in range(nodes):
        mine = np.flatnonzero(node[table] == number)
        places = Places.equal(context.memory_bytes, local, len(PHASES))
        rank[mine] = number * local + place(costs[mine], sizes[mine], places)
    return make_plan(
        tables,
        context.world_size,
        local,
        "table_column_wise",
        columns=ColumnShards(table, rank, column, dim),
        table_column_wise=all_tables(tables),
    )


def data_parallel(tables: Tables, context: PlanningContext) -> Plan:
    """Copies on all ranks.

    Raises:
        InfeasibleError: the copies do not fit.
    """
    check_everywhere(float(context.copied_bytes(tables).sum()), "copies of all tables", context)
    return make_plan(
        tables, context.world_size, context.local_world_size, "data_parallel", data_parallel=all_tables(tables)
    )


def _two_or_more(tables: Tables, context: PlanningContext) -> IntArray:
    """Column shards of each table, at least two where the dimension allows ``[N]``."""
    wanted = wanted_pieces(tables, all_tables(tables), context, context.memory_bytes, cost_share=1.0)
    return np.minimum(np.maximum(2, wanted), most_pieces(tables.dim))


def _by_columns(tables: Tables, context: PlanningContext, name: str, pieces: IntArray) -> Plan:
    columns = place_columns(tables, all_tables(tables), pieces, context, context.memory_bytes)
    columns = improve_columns(tables, columns, context, context.memory_bytes)
    return make_plan(tables, context.world_size, context.local_world_size, name, columns=columns)


def _by_nodes(tables: Tables, context: PlanningContext, name: str, pieces: IntArray) -> Plan:
    _require_pooled(tables, name)
    nodes, local = _nodes(context), context.local_world_size
    table, column, dim = cut_columns(all_tables(tables), tables.dim, pieces)
    costs, sizes = context.costs.node_shard_s(table, dim), block_bytes(tables, context, table, dim, local)
    node = place(costs, sizes, Places.equal(context.memory_bytes, nodes, len(PHASES)))
    return make_plan(tables, context.world_size, local, name, nodes=NodeShards(table, node, column, dim))


def _require_pooled(tables: Tables, name: str) -> None:
    """Refuse kinds of sharding that TorchRec's EmbeddingCollection lacks.

    Raises:
        InfeasibleError: the tables are of sequences.
    """
    if tables.sequences:
        raise InfeasibleError(f"TorchRec does not shard tables of sequences {name}")


def _nodes(context: PlanningContext) -> int:
    """Nodes, all with the same number of ranks."""
    if not context.whole_nodes:
        raise InfeasibleError(
            f"{context.world_size} ranks are no whole nodes of {context.local_world_size}: tables cannot be spread "
            "over the ranks of a node"
        )
    return context.world_size // context.local_world_size


PLANNERS.add("table_wise", table_wise, "every table whole on one rank, balanced by cost")
PLANNERS.add("column_wise", column_wise, "every table cut into column shards, more where it is costly or large")
PLANNERS.add("row_wise", row_wise, "every table cut into equal row blocks over all ranks")
PLANNERS.add("table_row_wise", table_row_wise, "every table cut into row blocks over one node, balanced by cost")
PLANNERS.add("table_column_wise", table_column_wise, "every table cut into column shards on one node")
PLANNERS.add("grid_shard", grid_shard, "every table cut into column shards for nodes, each by rows over its node")
PLANNERS.add("data_parallel", data_parallel, "a copy of every table on every rank, gradients by all_reduce")
