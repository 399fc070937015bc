"""Embedding tables of a rank: their weights, lookups and updates.

First weights are uniform in +-1/sqrt(rows), as facebookresearch/dlrm has them, and addressed by seed, table, row and
column: they do not depend on how tables are sharded.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from trainer.devices import DTYPES
from trainer.draws import Purpose, bits
from trainer.layout import Piece, ShardBlock
from trainer.lookups import Lookups, row_gradients
from trainer.optimizers import TableOptimizer
from workloads.graph.optimizers import TableOptimizerKind

REPEATED_VALUES = 2**18
"""Weights of a shard that are drawn where the rest may repeat them. If all were the same number, training would soon
have gradients that are no numbers, or denormal ones, which take longer."""
_INIT_VALUES = 2**22
"""Weights that are drawn at a time."""


class BlockTable:
    """The weights of a block ``[R, D]``."""

    def __init__(self, block: ShardBlock, seed: int, device: torch.device, *, repeated: bool = False) -> None:
        """Draw the first weights, or the first `REPEATED_VALUES` of each shard, ``repeated`` in all of it."""
        self.block = block
        rows = max(block.rows, 1)  # embedding_bag wants a row even when nothing is looked up
        self.weight = torch.zeros(rows, block.dim, dtype=DTYPES[block.precision], device=device)
        for piece, first in zip(block.pieces, block.first_rows, strict=False):
            _fill(self.weight[first : first + piece.rows], piece, seed, repeated=repeated)

    def pooled(self, lookups: Lookups) -> Tensor:
        """Sum of the rows of each bag ``[bags, D]``."""
        return torch.nn.functional.embedding_bag(
            lookups.rows, self.weight, lookups.offsets, mode="sum", include_last_offset=True
        )


class ShardedBlock(BlockTable):
    """A block whose optimizer is fused into its backward pass."""

    def __init__(
        self,
        block: ShardBlock,
        seed: int,
        device: torch.device,
        *,
        optimizer: TableOptimizerKind,
        repeated: bool = False,
    ) -> None:
        """Draw the first weights; start with state 0."""
        super().__init__(block, seed, device, repeated=repeated)
        self.optimizer = TableOptimizer(optimizer, self.weight)

    def update(self, lookups: Lookups, gradient: Tensor, scale: float) -> None:
        """Apply ``scale`` times the gradients of bags ``[bags, D]``, fp32."""
        update_rows(self.optimizer, lookups, gradient, scale)


def update_rows(optimizer: TableOptimizer, lookups: Lookups, gradient: Tensor, scale: float) -> None:
    """Apply ``scale`` times the gradients of bags ``[bags, D]``, fp32, to the rows looked up."""
    for rows, summed in row_gradients(lookups, gradient):
        optimizer.update(rows, summed.mul_(scale))


class CopiedBlock(BlockTable):
    """A block of which every rank has a copy; its dense gradient goes into ``gradient`` ``[R, D]``, fp32."""

    def accumulate(self, lookups: Lookups, gradient: Tensor, scale: float, into: Tensor) -> None:
        """Write ``scale`` times the gradients of bags ``[bags, D]``, summed per row, to ``into`` ``[R, D]``."""
        into.zero_()
        for rows, summed in row_gradients(lookups, gradient):
            into.index_copy_(0, rows, summed.mul_(scale))


def _fill(weight: Tensor, piece: Piece, seed: int, *, repeated: bool) -> None:
    """Write a shard's first weights, some rows at a time."""
    step = max(1, (REPEATED_VALUES if repeated else _INIT_VALUES) // piece.table_dim)
    some = _rows(piece, 0, min(step, piece.rows), seed)
    for low in range(0, piece.rows, step):
        count = min(step, piece.rows - low)
        weight[low : low + count].copy_(some[:count] if repeated or not low else _rows(piece, low, count, seed))


def _rows(piece: Piece, low: int, count: int, seed: int) -> Tensor:
    """First weights of ``count`` rows of a shard from ``low`` on."""
    width = piece.table_dim
    drawn = _uniform(seed, piece.table, (piece.row + low) * width, count * width).reshape(count, width)
    columns = np.ascontiguousarray(drawn[:, piece.column : piece.column + piece.dim])
    return torch.from_numpy(columns / np.float32(math.sqrt(piece.table_rows)))


def _uniform(seed: int, table: int, start: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Weights ``start`` to ``start + count`` of a table in [-1, 1), two from each 64-bit value."""
    skipped = start % 2
    raw = bits(seed, Purpose.TABLE_WEIGHTS, table, 0, start // 2, (skipped + count + 1) // 2)
    halves = raw.view(np.uint32)[skipped : skipped + count]
    return (halves * np.float32(2.0**-31) - np.float32(1.0)).astype(np.float32)
