"""Shards that go to places together: equally numbered column ranges of the tables of a set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.sharding.constraints import ALONE, TableConstraints


@dataclass(frozen=True, slots=True)
class JoinedShards:
    """Shards joined to units; each unit goes to one place.

    Attributes:
        unit: unit of each shard ``[S]``.
        costs: seconds of each unit and phase ``[U, K]``.
        sizes: bytes of each unit ``[U]``.
        allowed: whether a unit may be at a place ``[U, P]``; None: every unit may be anywhere.
    """

    unit: IntArray
    costs: FloatArray
    sizes: IntArray
    allowed: NDArray[np.bool_] | None


def joined(
    limits: TableConstraints | None,
    shard: IntArray,
    costs: FloatArray,
    sizes: IntArray,
    *,
    over: Literal["ranks", "nodes", "tables"] = "ranks",
    pieces: IntArray | None = None,
) -> JoinedShards:
    """Shards as units.

    Args:
        limits: constraints of the tables; None: every shard is a unit.
        shard: table of each shard ``[S]``, its pieces in their order.
        costs: seconds of each shard and phase ``[S, K]``.
        sizes: bytes of each shard ``[S]``.
        over: places of the units: ranks, nodes (all of whose ranks hold a shard), or nodes for tables, all pieces of
            which are on ranks of one node.
        pieces: column ranges of each table ``[N]``, for tables on nodes.
    """
    label = number = np.arange(len(shard))
    if limits is None and over != "tables":
        return JoinedShards(number, costs, sizes, None)
    if limits is not None:
        label = np.where(limits.together[shard] == ALONE, shard, len(limits.group) + limits.together[shard])
    elif over == "tables":
        label = shard
    piece = np.zeros_like(shard) if over == "tables" else piece_numbers(shard)
    _, first, unit = np.unique(np.stack([label, piece]), axis=1, return_index=True, return_inverse=True)
    unit = np.asarray(unit).reshape(-1)
    summed = np.zeros((len(first), costs.shape[1]))
    np.add.at(summed, unit, costs)
    size = np.bincount(unit, weights=sizes, minlength=len(first)).astype(np.int64)
    return JoinedShards(unit, summed, size, None if limits is None else _places(limits, shard[first], over, pieces))


def piece_numbers(shard: IntArray) -> IntArray:
    """Number of each shard within its table, from 0 ``[S]``."""
    order = np.argsort(shard, kind="stable")
    starts = np.flatnonzero(np.diff(shard[order], prepend=-1))
    counts = np.diff(np.append(starts, len(shard)))
    found = np.empty_like(shard)
    found[order] = np.arange(len(shard)) - np.repeat(starts, counts)
    return found


def _places(
    limits: TableConstraints, table: IntArray, over: Literal["ranks", "nodes", "tables"], pieces: IntArray | None
) -> NDArray[np.bool_] | None:
    """Whether units with shards of these tables may be at a place ``[U, P]``."""
    group = limits.group[table]
    if not group.any():
        return None
    if over == "ranks":
        return limits.ranks[group]
    by_node = limits.by_node[group]
    if over == "nodes" or pieces is None:
        return np.asarray(by_node.all(axis=2))
    return np.asarray(by_node.sum(axis=2) >= pieces[table][:, None])
