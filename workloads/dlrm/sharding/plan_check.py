"""Checks that a plan places every part of every table, once, where there is a rank."""

from __future__ import annotations

import numpy as np

from inputs.errors import InputError
from simulator.program import IntArray
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.shards import ColumnShards, NodeShards


def check_placement(
    tables: Tables,
    world_size: int,
    local_world_size: int,
    columns: ColumnShards,
    nodes: NodeShards,
    *,
    everywhere: IntArray,
    on_one_node: IntArray,
) -> None:
    """Check sorted shards.

    Args:
        everywhere: tables that are on all ranks, by rows or copied ``[...]``.
        on_one_node: tables whose column shards must be on one node ``[...]``.

    Raises:
        InputError: with the table as key.
    """
    for pieces in (columns, nodes):
        _check_wide(tables, pieces)
    _check_whole(tables, columns, nodes, everywhere)
    for pieces in (columns, nodes):
        _check_gapless(tables, pieces)
    _check_exists(tables, columns.table, columns.rank, world_size, "rank")
    _check_exists(tables, nodes.table, nodes.node, -(-world_size // local_world_size), "node")
    if world_size % local_world_size and len(nodes):
        message = "a table cut by rows over a node needs nodes of equal size"
        raise _error(tables, nodes.table[0], message, f"{world_size} ranks", f"a multiple of {local_world_size}")
    _check_one_node(tables, columns, local_world_size, on_one_node)


def _check_whole(tables: Tables, columns: ColumnShards, nodes: NodeShards, everywhere: IntArray) -> None:
    """Every column is placed once, by one kind of sharding."""
    count = len(tables)
    whole = np.bincount(everywhere, minlength=count)
    by_rank, by_node = (
        np.bincount(pieces.table, weights=pieces.dim, minlength=count).astype(np.int64) for pieces in (columns, nodes)
    )
    kinds = whole + (by_rank > 0) + (by_node > 0)
    placed = by_rank + by_node + whole * tables.dim
    bad = np.flatnonzero((kinds != 1) | (placed != tables.dim))
    if len(bad):
        message = "the plan does not place every column of the table once"
        raise _error(tables, bad[0], message, f"{placed[bad[0]]} columns", f"{tables.dim[bad[0]]}")


def _check_wide(tables: Tables, pieces: ColumnShards | NodeShards) -> None:
    """Every shard has columns."""
    empty = np.flatnonzero(pieces.dim < 1)
    if len(empty):
        given = f"{pieces.dim[empty[0]]} columns"
        raise _error(tables, pieces.table[empty[0]], "a shard without columns", given, "1 or more")


def _check_gapless(tables: Tables, pieces: ColumnShards | NodeShards) -> None:
    """Sorted column ranges follow each other without overlap or gap."""
    first = np.diff(pieces.table, prepend=-1) != 0
    expected = np.where(first, 0, np.roll(pieces.column + pieces.dim, 1))
    gap = np.flatnonzero(pieces.column != expected)
    if len(gap):
        message, given = "column shards overlap or leave a gap", int(pieces.column[gap[0]])
        raise _error(tables, pieces.table[gap[0]], message, given, f"column {expected[gap[0]]}")


def _check_exists(tables: Tables, table: IntArray, place: IntArray, count: int, what: str) -> None:
    lost = np.flatnonzero((place < 0) | (place >= count))
    if len(lost):
        message = f"a shard is on a {what} that does not exist"
        raise _error(tables, table[lost[0]], message, int(place[lost[0]]), f"0 to {count - 1}")


def _check_one_node(tables: Tables, columns: ColumnShards, local_world_size: int, on_one_node: IntArray) -> None:
    """Tables said to be column-cut on one node have column shards, all of them there."""
    node = columns.rank // local_world_size
    low, high = np.full(len(tables), np.iinfo(np.int64).max), np.full(len(tables), -1)
    np.minimum.at(low, columns.table, node)
    np.maximum.at(high, columns.table, node)
    bad = on_one_node[low[on_one_node] != high[on_one_node]]
    if len(bad):
        message, table = "a table_column_wise table is not on one node", bad[0]
        given = f"nodes {low[table]} and {high[table]}" if high[table] >= 0 else "no column shards"
        raise _error(tables, table, message, given, f"ranks of one node of {local_world_size}")


def _error(tables: Tables, table: int, message: str, given: object, expected: str) -> InputError:
    return InputError(message, key=f"plan.{tables.names[table]}", given=given, expected=expected)
