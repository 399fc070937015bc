"""Pieces of tables and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray


@dataclass(frozen=True, slots=True)
class ColumnShards:
    """Shards that hold all rows of a range of columns on one rank; all arrays ``[S]``.

    Those of table_wise, column_wise and table_column_wise tables.

    Attributes:
        table: table of each shard.
        rank: rank that holds it.
        column: its first column.
        dim: its number of columns.
    """

    table: IntArray
    rank: IntArray
    column: IntArray
    dim: IntArray

    def __len__(self) -> int:
        """S, the number of shards."""
        return len(self.table)

    def ordered(self) -> ColumnShards:
        """The same, by table and column."""
        order = np.lexsort((self.column, self.table))
        return ColumnShards(self.table[order], self.rank[order], self.column[order], self.dim[order])


@dataclass(frozen=True, slots=True)
class NodeShards:
    """Ranges of columns that a node holds, their rows cut into equal blocks over its ranks; all arrays ``[S]``.

    Those of table_row_wise and grid_shard tables.

    Attributes:
        table: table of each shard.
        node: node that holds it.
        column: its first column.
        dim: its number of columns.
    """

    table: IntArray
    node: IntArray
    column: IntArray
    dim: IntArray

    def __len__(self) -> int:
        """S, the number of shards."""
        return len(self.table)

    def ordered(self) -> NodeShards:
        """The same, by table and column."""
        order = np.lexsort((self.column, self.table))
        return NodeShards(self.table[order], self.node[order], self.column[order], self.dim[order])


def no_columns() -> ColumnShards:
    """No column shards."""
    return ColumnShards(*(np.zeros(0, dtype=np.int64) for _ in range(4)))


def no_nodes() -> NodeShards:
    """No shards of nodes."""
    return NodeShards(*(np.zeros(0, dtype=np.int64) for _ in range(4)))


@dataclass(frozen=True, slots=True)
class Shards:
    """Every shard of a plan, rows and columns spelled out; all arrays ``[S]``.

    ``lookups_fraction``: share of the table's lookups that the shard serves when all rows are alike (of the global
    batch; for a data_parallel copy of the local batch).
    """

    table: IntArray
    rank: IntArray
    row: IntArray
    rows: IntArray
    column: IntArray
    dim: IntArray
    lookups_fraction: FloatArray

    def __len__(self) -> int:
        """S, the number of shards."""
        return len(self.table)


def joined(parts: Sequence[Shards]) -> Shards:
    """All shards of ``parts``."""
    names = Shards.__dataclass_fields__
    return Shards(**{n: np.concatenate([getattr(p, n) for p in parts]) for n in names})


def row_blocks(rows: IntArray, ranks: int) -> IntArray:
    """Rows of tables of ``rows [N]`` rows on each of ``ranks`` ranks ``[N, ranks]``.

    TorchRec gives each rank ``ceil(rows / ranks)`` rows, so the last ranks may get fewer or none.
    """
    block = -(-rows // ranks)
    return np.clip(rows[:, None] - block[:, None] * np.arange(ranks), 0, block[:, None])
