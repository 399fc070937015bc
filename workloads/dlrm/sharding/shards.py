"""Pieces of tables and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from simulator.operators import FloatArray
from simulator.program import IntArray


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of tables; all arrays ``[S]``.

    Attributes:
        table: table of each piece.
    """

    table: IntArray

    def __len__(self) -> int:
        """S, the number of pieces."""
        return len(self.table)

    @classmethod
    def none(cls) -> Self:
        """No pieces."""
        return cls(*(np.zeros(0, dtype=np.int64) for _ in fields(cls)))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All pieces of ``parts``."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def at(self, which: NDArray[Any]) -> Self:
        """Some of the pieces, by a mask ``[S]`` or in an order."""
        return type(self)(*(getattr(self, field.name)[which] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class ColumnShards(Pieces):
    """Shards that hold all rows of a range of columns on one rank; all arrays ``[S]``.

    Those of table_wise, column_wise and table_column_wise tables.

    Attributes:
        rank: rank that holds it.
        column: its first column.
        dim: its number of columns.
    """

    rank: IntArray
    column: IntArray
    dim: IntArray


@dataclass(frozen=True, slots=True)
class NodeShards(Pieces):
    """Ranges of columns that a node holds, their rows cut into equal blocks over its ranks; all arrays ``[S]``.

    Those of table_row_wise and grid_shard tables.

    Attributes:
        node: node that holds it.
        column: its first column.
        dim: its number of columns.
    """

    node: IntArray
    column: IntArray
    dim: IntArray


@dataclass(frozen=True, slots=True)
class Shards(Pieces):
    """Every shard of a plan, rows and columns spelled out; all arrays ``[S]``.

    ``lookups_fraction``: share of the table's lookups that the shard serves when all rows are alike (of the global
    batch; for a data_parallel copy of the local batch).
    """

    rank: IntArray
    row: IntArray
    rows: IntArray
    column: IntArray
    dim: IntArray
    lookups_fraction: FloatArray
