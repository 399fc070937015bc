"""Which parts of which tables a rank holds, and how they lie in memory and in exchanged buffers.

A rank keeps the shards of one width and number format under each other in one matrix, a *block*, so that one kernel
serves all of them, as FBGEMM's table-batched embeddings do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Literal, TypeAlias

from trainer.job import TrainingJob
from workloads.plan import Plan

Kind: TypeAlias = Literal["column", "row_wise", "data_parallel"]
KINDS: tuple[Kind, ...] = ("column", "row_wise", "data_parallel")
"""Kinds of groups, in the order in which the simulator's generator has them."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A shard: ``rows`` rows from ``row`` on, ``dim`` columns from ``column`` on, of a table."""

    table: int
    table_rows: int
    table_dim: int
    row: int
    rows: int
    column: int
    dim: int
    precision: str


@dataclass(frozen=True, slots=True)
class Block:
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
        """First row of each shard ``[F]``, and the number of rows of all at the end."""
        return tuple(accumulate((piece.rows for piece in self.pieces), initial=0))

    @property
    def rows(self) -> int:
        """Rows of all shards."""
        return self.first_rows[-1]

    @property
    def width(self) -> int:
        """Elements that the block adds to a sample's pooled vectors."""
        return len(self.pieces) * self.dim


Blocks: TypeAlias = tuple[Block, ...]


def width_of(blocks: Blocks) -> int:
    """Elements that a rank's blocks add to a sample's pooled vectors."""
    return sum(block.width for block in blocks)


def placement(job: TrainingJob, kind: Kind) -> tuple[Blocks, ...]:
    """Blocks of a kind on every rank ``[P]``; all empty when no table is sharded so."""
    return tuple(_blocks(job, kind, rank) for rank in range(job.world_size))


def _blocks(job: TrainingJob, kind: Kind, rank: int) -> Blocks:
    pieces = sorted(_pieces(job, kind, rank), key=lambda p: (p.dim, p.precision, p.table, p.column))
    return tuple(Block(tuple(same)) for _, same in groupby(pieces, key=lambda p: (p.dim, p.precision)))


def _pieces(job: TrainingJob, kind: Kind, rank: int) -> list[Piece]:
    plan = job.plan
    if kind == "column":
        mine = plan.columns.rank == rank
        columns = (plan.columns.table[mine], plan.columns.column[mine], plan.columns.dim[mine])
        return [_piece(job, *place) for place in zip(*(array.tolist() for array in columns), strict=True)]
    if kind == "data_parallel":
        return [_piece(job, table) for table in plan.data_parallel.tolist()]
    held = plan.block_rows()[:, rank].tolist()  # every rank has a piece of every table, the last ones perhaps empty
    return [
        replace(_piece(job, table), row=rank * rows_per_rank(plan, table), rows=rows)
        for table, rows in zip(plan.row_wise.tolist(), held, strict=True)
    ]


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
    )


def rows_per_rank(plan: Plan, table: int) -> int:
    """Rows of a row_wise table that a rank gets, the last ones perhaps fewer."""
    return -(-int(plan.tables.rows[table]) // plan.world_size)
