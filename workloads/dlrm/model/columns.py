"""Cutting tables into column ranges."""

from __future__ import annotations

import numpy as np

from simulator.program import IntArray

COLUMN_MULTIPLE = 4
"""FBGEMM's table-batched embedding needs dimensions that are multiples of 4 (split_table_batched_embeddings_ops)."""


def most_pieces(dim: IntArray) -> IntArray:
    """Most column ranges that tables of these dimensions can be cut into ``[N]``."""
    return np.maximum(1, dim // COLUMN_MULTIPLE)


def widest_range(dim: IntArray, pieces: IntArray) -> IntArray:
    """Columns of the widest range of tables cut into ``pieces [N]`` ranges, as `cut_columns` makes them ``[N]``."""
    units, count = dim // COLUMN_MULTIPLE, np.minimum(pieces, most_pieces(dim))
    last = dim - COLUMN_MULTIPLE * ((count - 1) * units // count)
    return np.asarray(np.maximum(COLUMN_MULTIPLE * -(-units // count), last))


def cut_columns(table: IntArray, dim: IntArray, pieces: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Cut each table into ranges as equal as multiples of four columns allow.

    Args:
        table: table numbers ``[N]``.
        dim: their columns ``[N]``.
        pieces: ranges of each ``[N]``; fewer are made where the dimension does not allow as many.

    Returns:
        table, first column and number of columns of each shard ``[S]``.
    """
    pieces = np.minimum(pieces, most_pieces(dim))
    which = np.repeat(np.arange(len(table)), pieces)
    piece = np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    units, count = (dim // COLUMN_MULTIPLE)[which], pieces[which]

    def edge(number: IntArray) -> IntArray:
        """First column of piece ``number``; the last range takes the remainder of a division by four."""
        at = COLUMN_MULTIPLE * (number * units // count)
        return np.where(number == count, dim[which], at)

    first = edge(piece)
    return table[which], first, edge(piece + 1) - first
