"""Parts of tables that a rank holds, and their layout in memory and in exchanged buffers.

A rank keeps the shards of one width and number format under each other in one matrix, a *block*, so that one kernel
serves all of them, as FBGEMM's table-batched embeddings do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.program import IntArray
from trainer.job import TrainingJob

BoolArray: TypeAlias = npt.NDArray[np.bool_]
Kind: TypeAlias = Literal["column", "row_wise", "data_parallel"]
KINDS: tuple[Kind, ...] = ("column", "row_wise", "data_parallel")
"""Kinds of groups, in the order in which the simulator's generator has them."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A shard: ``rows`` rows from ``row`` on, ``dim`` columns from ``column`` on, of a table.

    ``features``: those looked up in the table.
    """

    table: int
    table_rows: int
    table_dim: int
    row: int
    rows: int
    column: int
    dim: int
    precision: str
    features: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShardBlock:
    """Shards of one width and number format, one under the other."""

    pieces: tuple[Piece, ...]

    @property
    def dim(self) -> int:
        """Columns."""
        return self.pieces[0].dim

    @property
    def precision(self) -> str:
        """Number format of the weights."""
        return self.pieces[0].precision

    @property
    def first_rows(self) -> tuple[int, ...]:
        """First row of each shard, and the number of rows of all at the end."""
        return tuple(accumulate((piece.rows for piece in self.pieces), initial=0))

    @property
    def rows(self) -> int:
        """Rows of all shards."""
        return self.first_rows[-1]

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Features looked up in the block, in the order of vectors on the wire ``[S]``."""
        return tuple(
            Slot(feature, place, first, piece)
            for piece, first in zip(self.pieces, self.first_rows, strict=False)
            for place, feature in enumerate(piece.features)
        )

    @property
    def width(self) -> int:
        """Elements that the block adds to a sample's pooled vectors."""
        return len(self.slots) * self.dim


@dataclass(frozen=True, slots=True)
class Slot:
    """A feature looked up in a shard: ``place`` among those of its table, ``first_row`` of the shard in the block."""

    feature: int
    place: int
    first_row: int
    piece: Piece


Blocks: TypeAlias = tuple[ShardBlock, ...]


def width_of(blocks: Blocks) -> int:
    """Elements that a rank's blocks add to a sample's pooled vectors."""
    return sum(block.width for block in blocks)


def placement(job: TrainingJob, kind: Kind) -> tuple[Blocks, ...]:
    """Blocks of a kind on every rank ``[P]``; all empty when no table is sharded so."""
    return tuple(_blocks(job, kind, rank) for rank in range(job.world_size))


def _blocks(job: TrainingJob, kind: Kind, rank: int) -> Blocks:
    pieces = sorted(_pieces(job, kind, rank), key=lambda p: (p.dim, p.precision, p.table, p.column))
    return tuple(ShardBlock(tuple(same)) for _, same in groupby(pieces, key=lambda p: (p.dim, p.precision)))


def _pieces(job: TrainingJob, kind: Kind, rank: int) -> list[Piece]:
    plan = job.plan
    columns, nodes = plan.columns, plan.nodes
    whole_nodes = plan.local_world_size == 1  # a node is a rank, which holds all rows of a node's columns
    if kind == "column":
        places = _places(columns.table, columns.column, columns.dim, columns.rank == rank)
        places += _places(nodes.table, nodes.column, nodes.dim, (nodes.node == rank) & whole_nodes)
        return [_piece(job, *place) for place in places]
    if kind == "data_parallel":
        return [_piece(job, table) for table in plan.data_parallel.tolist()]
    places = [(table, 0, int(plan.tables.dim[table])) for table in plan.row_wise.tolist()]
    places += _places(nodes.table, nodes.column, nodes.dim, np.full(len(nodes), not whole_nodes))
    return [_row_block(job, _piece(job, *place), rank) for place in places]


def _places(table: IntArray, column: IntArray, dim: IntArray, kept: BoolArray) -> list[tuple[int, int, int]]:
    """(table, first column, columns) of the shards that are kept."""
    return list(zip(table[kept].tolist(), column[kept].tolist(), dim[kept].tolist(), strict=True))


def _piece(job: TrainingJob, table: int, column: int = 0, dim: int | None = None) -> Piece:
    """A shard with all rows of a table."""
    rows, table_dim = int(job.plan.tables.rows[table]), int(job.plan.tables.dim[table])
    return Piece(
        table=table,
        table_rows=rows,
        table_dim=table_dim,
        row=0,
        rows=rows,
        column=column,
        dim=table_dim if dim is None else dim,
        precision=job.table_precision[table],
        features=tuple(feature for feature, of in enumerate(job.table_of_feature) if of == table),
    )


def _row_block(job: TrainingJob, whole: Piece, rank: int) -> Piece:
    """A rank's rows of a shard cut over all ranks; the last ranks may have fewer, or none."""
    each = rows_per_rank(job.world_size, whole)
    first = min(rank * each, whole.rows)
    return replace(whole, row=first, rows=min(each, whole.rows - first))


def rows_per_rank(world_size: int, piece: Piece) -> int:
    """Rows of a table that a rank gets when it is cut over all ranks, the last ones perhaps fewer."""
    return -(-piece.table_rows // world_size)
