"""Equal blocks of the rows of tables, and the lookups and distinct rows that fall on each."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.laws.index_laws import Law, salt_of
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.traffic import laws_of

KEPT_BYTES = 256e6
"""Memory for kept shares: a thousand tables over 8 and over 4,096 ranks take 66 MB."""


def row_blocks(rows: IntArray, ranks: int) -> IntArray:
    """Rows of tables of ``rows [N]`` rows on each of ``ranks`` ranks ``[N, ranks]``.

    TorchRec gives each rank ``ceil(rows / ranks)`` rows, so the last ranks may get fewer or none.
    """
    block = -(-rows // ranks)
    return np.clip(rows[:, None] - block[:, None] * np.arange(ranks), 0, block[:, None])


def block_shares(tables: Tables, settings: DlrmSettings, table: IntArray, blocks: int) -> tuple[FloatArray, FloatArray]:
    """Shares of lookups and of distinct rows of each block of rows ``[S, B]``; each sums to 1 over the blocks.

    Args:
        table: table of each shard ``[S]``.
        blocks: number of blocks of its rows, see `row_blocks`.

    Raises:
        InputError: a file of indices looks up rows that the table lacks.
    """
    found = np.zeros((2, len(table), blocks))
    laws, per_sample = laws_of(tables, settings), tables.lookups_per_sample
    for shard, number in enumerate(table.tolist()):
        lookups = settings.global_batch_size * float(per_sample[number])
        key = laws[number], int(tables.rows[number]), lookups, settings.global_batch_size
        whole = _Blocks(*key, salt_of(tables.names[number]), blocks)
        found[:, shard] = _SHARES.of(whole)
        if settings.index_dedup:  # ranks ask for each of their distinct rows
            found[0, shard] = _SHARES.of(replace(whole, counted=lookups / settings.world_size))[1]
    return found[0], found[1]


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The rows of a table cut into blocks, and the lookups of a global batch of ``samples`` in it.

    ``counted``: lookups of the part of the batch whose distinct rows are counted; None: of all.
    """

    law: Law
    rows: int
    lookups: float
    samples: int
    salt: int
    blocks: int
    counted: float | None = None

    def shares(self) -> FloatArray:
        """Shares of lookups and of distinct rows of each block ``[2, B]``."""
        law = self.law.popularity(self.rows, self.lookups, self.samples, self.salt)
        edges = np.concatenate([[0], np.cumsum(row_blocks(np.array([self.rows]), self.blocks)[0])])
        return law.block_parts(edges, self.lookups if self.counted is None else self.counted)


@dataclass(slots=True)
class _Kept:
    """Shares computed before, the latest used last: they depend on no plan, and plans are compared by the hundred."""

    known: OrderedDict[_Blocks, FloatArray] = field(default_factory=OrderedDict)
    held_bytes: int = 0

    def of(self, blocks: _Blocks) -> FloatArray:
        """The shares of a table's blocks ``[2, B]``."""
        found = self.known.get(blocks)
        if found is not None:
            self.known.move_to_end(blocks)
            return found
        found = self.known[blocks] = blocks.shares()
        self.held_bytes += found.nbytes
        while self.held_bytes > KEPT_BYTES:
            _, oldest = self.known.popitem(last=False)
            self.held_bytes -= oldest.nbytes
        return found


_SHARES = _Kept()
