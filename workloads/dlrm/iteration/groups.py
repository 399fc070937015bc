"""Embedding tables of one kind of sharding: their kernels and exchanges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from simulator.collective_calls import CollectiveCall, CollectiveOp
from simulator.operators import Amount, CacheFill, EmbeddingLookup, EmbeddingUpdate, FloatArray

INPUT_WORLD, SUM_WORLD = "input_world", "sum_world"
"""Communicators: all ranks once more, for input_dist and for sums of gradients with a group of their own."""


GroupKind: TypeAlias = Literal[
    "column",
    "node_wise",
    "row_wise",
    "frequent",
    "data_parallel",
    "sequence_column",
    "sequence_row_wise",
]
"""Kinds of sharding; kinds of sequences exchange a vector for each lookup."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Bytes of a collective: bytes that each rank sends, and the weights of the receivers (None: even)."""

    bytes: Amount
    receive_weights: FloatArray | None = None

    def call(self, op: CollectiveOp, communicator: str, dtype: str) -> CollectiveCall:
        """The collective with these amounts."""
        return CollectiveCall(op, communicator, self.bytes, dtype=dtype, receive_weights=self.receive_weights)


@dataclass(frozen=True, slots=True)
class EmbeddingGroup:
    """Tables of one kind of sharding.

    Attributes:
        lookup: forward kernel.
        update: backward kernel fused with the optimizer.
        width: elements of the pooled vectors of one sample, all tables of the group; 0 for sequences.
        received: elements of the vectors of sequences that a rank receives, or looks up in copied tables: of each
            lookup, or of each row once; as the next ``[P]`` where ranks differ.
        unpooled: elements of the vectors of its lookups, a vector for each.
        lengths: bag lengths sent to the owners, None for copies.
        values: indices sent to the owners, None for copies.
        forward: pooled vectors to the ranks of their samples, one call after the other; none for copies.
        backward: their gradients back, likewise.
        scattered: elements of a sample that each scatter of the forward exchange has at its root, one call after the
            other, instead of an all_to_all; none where that is one.
        fill: kernel that brings rows into caches before the lookup, None without caches.
        copied_parameters: weights that every rank has a copy of, whose gradients are summed over ranks.
        copied_bytes: their size.
    """

    kind: GroupKind
    lookup: EmbeddingLookup
    update: EmbeddingUpdate
    width: int
    lengths: Exchange | None = None
    values: Exchange | None = None
    forward: tuple[CollectiveCall, ...] = ()
    backward: tuple[CollectiveCall, ...] = ()
    scattered: tuple[float, ...] = ()
    fill: CacheFill | None = None
    copied_parameters: int = 0
    copied_bytes: float = 0.0
    received: Amount = 0.0
    unpooled: Amount = 0.0

    @property
    def cut_by_rows(self) -> bool:
        """Whether the indices of a table go to several ranks, by row."""
        return self.kind in ("node_wise", "row_wise", "sequence_row_wise")
