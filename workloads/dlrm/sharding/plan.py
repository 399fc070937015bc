"""Sharding plans: which rank holds which rows and columns of which table.

Words as in TorchRec: ``table_wise`` puts a table on one rank, ``column_wise`` its column ranges on several ranks,
``table_column_wise`` its column ranges on the ranks of one node, ``row_wise`` equal blocks of rows on all ranks,
``table_row_wise`` equal blocks of rows on the ranks of one node, ``grid_shard`` column ranges on several nodes, each
cut by rows over the node's ranks, ``data_parallel`` a copy on every rank. Node n is the ranks from ``n *
local_world_size`` on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from simulator.program import IntArray
from workloads.dlrm.model.storage import Storage, uniform_storage
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.blocks import row_blocks
from workloads.dlrm.sharding.plan_check import check_placement
from workloads.dlrm.sharding.plan_file import PlanKernel, ShardingType
from workloads.dlrm.sharding.shards import ColumnShards, NodeShards, Shards

_Ranges = TypeVar("_Ranges", ColumnShards, NodeShards)


def _no_tables() -> IntArray:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Plan:
    """A sharding plan.

    Row blocks and copies follow from the table and the number of ranks, so only the rest is stored piece by piece.

    Attributes:
        local_world_size: ranks per node.
        planner: name of its planner.
        storage: compute kernels of tables that are not copied, which determine their memory tiers.
        columns: shards of table_wise, column_wise and table_column_wise tables, sorted by table and column.
        nodes: shards of table_row_wise and grid_shard tables, sorted likewise.
        row_wise: tables cut into row blocks over all ranks ``[...]``.
        data_parallel: tables copied to every rank ``[...]``.
        table_column_wise: tables whose column shards are said to stay on one node ``[...]``.
        rows_scale: factor that was applied to the rows of all tables (1 when none).
    """

    tables: Tables
    world_size: int
    local_world_size: int
    planner: str
    storage: Storage
    columns: ColumnShards = field(default_factory=ColumnShards.none)
    nodes: NodeShards = field(default_factory=NodeShards.none)
    row_wise: IntArray = field(default_factory=_no_tables)
    data_parallel: IntArray = field(default_factory=_no_tables)
    table_column_wise: IntArray = field(default_factory=_no_tables)
    rows_scale: float = 1.0

    @property
    def compute_kernels(self) -> tuple[PlanKernel, ...]:
        """Compute kernel of each table ``[N]``."""
        copied = set(self.data_parallel.tolist())
        return tuple("dense" if t in copied else self.storage.named(t) for t in range(len(self.tables)))

    @property
    def sharding_types(self) -> tuple[ShardingType, ...]:
        """Sharding type of each table ``[N]``."""
        pieces = np.bincount(self.columns.table, minlength=len(self.tables))
        types: list[ShardingType] = ["column_wise" if p > 1 else "table_wise" for p in pieces]
        for table, pieces_of in zip(*np.unique(self.nodes.table, return_counts=True), strict=True):
            types[table] = "grid_shard" if pieces_of > 1 else "table_row_wise"
        named: tuple[tuple[IntArray, ShardingType], ...] = (
            (self.row_wise, "row_wise"),
            (self.data_parallel, "data_parallel"),
            (self.table_column_wise, "table_column_wise"),
        )
        for tables, kind in named:
            for table in tables:
                types[table] = kind
        return tuple(types)

    @property
    def key(self) -> bytes:
        """Equal for plans that place the same rows of the same tables in the same way, in whatever order tables are."""
        order = np.array(sorted(range(len(self.tables)), key=self.tables.names.__getitem__), dtype=np.int64)
        number = np.argsort(order)
        columns = _ordered(replace(self.columns, table=number[self.columns.table]))
        nodes = _ordered(replace(self.nodes, table=number[self.nodes.table]))
        pieces = [columns.table, columns.rank, columns.column, nodes.table, nodes.node, nodes.column]
        whole = [np.sort(number[part]) for part in (self.row_wise, self.data_parallel, self.table_column_wise)]
        kept = [self.tables.rows[order], self.storage.kernel[order], self.storage.load_factor[order]]
        return b"|".join(part.tobytes() for part in (*pieces, *whole, *kept))

    @property
    def node_count(self) -> int:
        """Nodes, the last of which may have fewer ranks."""
        return -(-self.world_size // self.local_world_size)

    def block_rows(self) -> IntArray:
        """Rows of each row_wise table on each rank ``[tables, P]``."""
        return row_blocks(self.tables.rows[self.row_wise], self.world_size)

    def node_block_rows(self) -> IntArray:
        """Rows of each shard of a node on each of the node's ranks ``[S, L]``."""
        return row_blocks(self.tables.rows[self.nodes.table], self.local_world_size)

    def shards(self) -> Shards:
        """All shards, in order of kind (columns, nodes, row blocks, copies), table and rank; no empty row blocks."""
        return Shards.joined([_column_part(self), _node_part(self), _row_part(self), _copy_part(self)])


def make_plan(
    tables: Tables,
    world_size: int,
    local_world_size: int,
    planner: str,
    *,
    columns: ColumnShards | None = None,
    nodes: NodeShards | None = None,
    row_wise: Sequence[int] | IntArray = (),
    data_parallel: Sequence[int] | IntArray = (),
    table_column_wise: Sequence[int] | IntArray = (),
    storage: Storage | None = None,
    rows_scale: float = 1.0,
) -> Plan:
    """A plan with its shards sorted.

    Raises:
        InputError: a table is missing, placed twice or only in part, a rank or node does not exist, nodes that share
            tables have different numbers of ranks, or a table_column_wise table is on two nodes.
    """
    return checked(
        Plan(
            tables,
            world_size,
            local_world_size,
            planner,
            storage or uniform_storage(len(tables)),
            columns=columns or ColumnShards.none(),
            nodes=nodes or NodeShards.none(),
            row_wise=np.asarray(row_wise, dtype=np.int64),
            data_parallel=np.asarray(data_parallel, dtype=np.int64),
            table_column_wise=np.asarray(table_column_wise, dtype=np.int64),
            rows_scale=rows_scale,
        )
    )


def checked(plan: Plan) -> Plan:
    """The plan with its shards sorted; raises as `make_plan`."""
    plan = replace(
        plan,
        columns=_ordered(plan.columns),
        nodes=_ordered(plan.nodes),
        row_wise=np.sort(plan.row_wise),
        data_parallel=np.sort(plan.data_parallel),
        table_column_wise=np.sort(plan.table_column_wise),
    )
    check_placement(
        plan.tables,
        plan.world_size,
        plan.local_world_size,
        plan.columns,
        plan.nodes,
        everywhere=np.concatenate([plan.row_wise, plan.data_parallel]),
        on_one_node=plan.table_column_wise,
    )
    return plan


def _ordered(pieces: _Ranges) -> _Ranges:
    """The pieces by table and column."""
    return pieces.at(np.lexsort((pieces.column, pieces.table)))


def _column_part(plan: Plan) -> Shards:
    c = plan.columns
    return Shards(c.table, c.rank, np.zeros_like(c.table), plan.tables.rows[c.table], c.column, c.dim, np.ones(len(c)))


def _node_part(plan: Plan) -> Shards:
    nodes, rows = plan.nodes, plan.node_block_rows()
    which, local = np.nonzero(rows)
    table, held = nodes.table[which], rows[which, local]
    all_rows = plan.tables.rows[table]
    rank = nodes.node[which] * plan.local_world_size + local
    first = local * -(-all_rows // plan.local_world_size)
    return Shards(table, rank, first, held, nodes.column[which], nodes.dim[which], held / all_rows)


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
