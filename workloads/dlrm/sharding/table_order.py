"""Planning in sorted order of the tables, so that plans do not depend on their order in a model.

Planners break ties by the number of a table, and some assign tables to ranks in their order. To make both independent
of the order in a model, a planner gets the tables sorted by their properties, and its plan is renumbered afterwards.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.program import IntArray
from workloads.dlrm.model.storage import Storage
from workloads.dlrm.model.tables import Tables, in_order
from workloads.dlrm.sharding.interfaces import Planner, PlanningContext, StorageChoice
from workloads.dlrm.sharding.plan import Plan, make_plan
from workloads.dlrm.sharding.shards import ColumnShards, NodeShards


def in_one_order(make: Planner, tables: Tables, context: PlanningContext) -> Plan:
    """The plan of ``make`` for the sorted tables, with the numbering of ``tables``.

    Raises:
        InfeasibleError: the planner finds no plan.
    """
    order = sorted_tables(tables, context)
    if np.array_equal(order, np.arange(len(order))):
        return make(tables, context)
    placed = in_order(tables, order)
    limits = None if context.constraints is None else context.constraints.at(order)
    choice, costs = _chosen(context.choice, order), context.costs.of(placed)
    plan = make(placed, replace(context, costs=costs, choice=choice, constraints=limits))
    return renumbered(plan, tables, order)


def sorted_tables(tables: Tables, context: PlanningContext) -> IntArray:
    """Numbers of the tables, sorted by size, lookups and laws ``[N]``; names decide between equal ones only."""
    nothing, per_sample = (None,) * len(tables), tables.lookups_per_sample
    choice = context.choice
    keys = [
        (
            int(tables.rows[table]),
            int(tables.dim[table]),
            int(tables.element_bytes[table]),
            -float(per_sample[table]),
            tables.pooling_of_features(table),
            repr((tables.indices or nothing)[table]),
            repr((tables.pooling or nothing)[table]),
            repr((tables.sequences or nothing)[table]),
            () if choice is None else (*choice.allowed[table].tolist(), float(choice.load_factor[table])),
            () if context.constraints is None else context.constraints.sort_key(table),
            tables.names[table],
        )
        for table in range(len(tables))
    ]
    return np.array(sorted(range(len(tables)), key=keys.__getitem__), dtype=np.int64)


def renumbered(plan: Plan, tables: Tables, order: IntArray) -> Plan:
    """A plan for sorted tables, renumbered for ``tables`` in their own order.

    Scaled rows of the plan are kept.
    """
    columns, nodes = plan.columns, plan.nodes
    back = np.argsort(order)
    return make_plan(
        replace(tables, rows=plan.tables.rows[back]),
        plan.world_size,
        plan.local_world_size,
        plan.planner,
        columns=ColumnShards(order[columns.table], columns.rank, columns.column, columns.dim),
        nodes=NodeShards(order[nodes.table], nodes.node, nodes.column, nodes.dim),
        row_wise=order[plan.row_wise],
        data_parallel=order[plan.data_parallel],
        table_column_wise=order[plan.table_column_wise],
        storage=Storage(plan.storage.kernel[back], plan.storage.load_factor[back]),
        rows_scale=plan.rows_scale,
    )


def _chosen(choice: StorageChoice | None, order: IntArray) -> StorageChoice | None:
    if choice is None:
        return None
    return replace(choice, allowed=choice.allowed[order], load_factor=choice.load_factor[order])
