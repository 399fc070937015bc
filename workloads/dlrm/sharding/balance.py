"""Placing shards on ranks so that no rank keeps the others waiting.

Ranks work in phases that end together (lookups, exchange...), so an iteration lasts as long as the sum over phases of
the slowest rank. Shards are placed by descending cost (longest processing time first), each on the rank where the
phases overflow least over their means; ties go to the rank with the least total. `improve` then moves and swaps
shards of the slowest ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inputs.errors import InfeasibleError
from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.sharding.refine import Refined, refine

MEMORY_SLACK = 1.25
"""A rank takes at most this much of the mean size while that works: the rank's other data needs room too. When it does
not work, costly shards are placed wherever there is room, and last the largest ones first."""

REFINE_STEPS = 300
"""Most moves and swaps after the greedy placement."""

REFINE_WORK = 400_000
"""Most shards looked at in all moves and swaps together: bounds planning for thousands of ranks to about a second."""

_TIE_BREAK = 1e-3
"""Weight of a rank's total load beside its overflow: it decides while no phase has reached its mean."""


@dataclass(frozen=True, slots=True)
class Places:
    """The ranks (or nodes) that shards are put on.

    Attributes:
        room: bytes that each has for them ``[P]``.
        loads: seconds of each phase that each has already ``[P, K]``.
    """

    room: FloatArray
    loads: FloatArray

    @classmethod
    def equal(cls, free_bytes: float, world_size: int, phases: int) -> Places:
        """Empty ranks with the same room."""
        return cls(np.full(world_size, float(free_bytes)), np.zeros((world_size, phases)))

    def __len__(self) -> int:
        """P, the number of places."""
        return len(self.room)

    def targets(self, costs: FloatArray) -> FloatArray:
        """Mean load of each phase when shards of these costs ``[S, K]`` are there too ``[K]``."""
        return np.asarray((self.loads.sum(axis=0) + costs.sum(axis=0)) / len(self))


def place(
    costs: FloatArray,
    sizes: IntArray,
    places: Places,
    *,
    hasty: bool = False,
    allowed: NDArray[np.bool_] | None = None,
) -> IntArray:
    """Place of each shard ``[S]``.

    Args:
        costs: seconds per shard and phase ``[S, K]``.
        sizes: bytes per shard ``[S]``.
        places: ranks of the shards.
        hasty: whether the first placement is used, the largest shards first, without balancing.
        allowed: whether a shard may be on a rank ``[S, P]``; None: every shard may be on any rank. Shards with the
            fewest such ranks are placed first.

    Raises:
        InfeasibleError: the shards do not fit, with the numbers.
    """
    _check_total(sizes, places)
    by_cost, by_size = np.argsort(-costs.sum(axis=1), kind="stable"), np.argsort(-sizes, kind="stable")
    even = np.minimum(places.room, MEMORY_SLACK * float(sizes.sum()) / len(places))
    ranks = None
    ways = ((by_cost, even), (by_cost, places.room), (by_size, places.room))
    for order, limit in ways[-1:] if hasty else ways:
        if ranks is None:
            ranks = _place_in_order(order, costs, sizes, Places(limit, places.loads), allowed)
    if ranks is None:
        raise InfeasibleError(
            f"{len(sizes)} shards of {sizes.sum() / 1e9:.1f} GB do not fit on {len(places)} ranks with "
            f"{places.room.max() / 1e9:.2f} GB each for tables; the largest shard has {sizes.max() / 1e9:.2f} GB"
        )
    return ranks


def improve(
    costs: FloatArray,
    sizes: IntArray,
    ranks: IntArray,
    places: Places,
    *,
    allowed: NDArray[np.bool_] | None = None,
) -> IntArray:
    """Place of each shard ``[S]`` after moves and swaps from ``ranks`` ``[S]``; other arguments as for `place`."""
    used = np.bincount(ranks, weights=sizes, minlength=len(places))
    limit = np.minimum(places.room, max(MEMORY_SLACK * float(used.mean()), float(used.max())))
    steps = min(REFINE_STEPS, REFINE_WORK // max(1, len(sizes)))
    on = Refined(np.asarray(limit - used), places.loads, places.targets(costs), allowed)
    return refine(costs, sizes, ranks, on, steps)


def _check_total(sizes: IntArray, places: Places) -> None:
    room, largest = float(places.room.sum()), float(places.room.max())
    if sizes.sum() > room:
        raise InfeasibleError(
            f"the tables need {sizes.sum() / 1e9:.1f} GB, {len(places)} ranks have "
            f"{room / 1e9:.1f} GB for them ({largest / 1e9:.2f} GB each)"
        )
    if len(sizes) and sizes.max() > largest:
        raise InfeasibleError(
            f"a shard needs {sizes.max() / 1e9:.2f} GB, a rank has {largest / 1e9:.2f} GB for tables: "
            "column_wise or row_wise sharding cuts it"
        )


def _place_in_order(
    order: IntArray, costs: FloatArray, sizes: IntArray, places: Places, allowed: NDArray[np.bool_] | None
) -> IntArray | None:
    """Place greedily in the given order; None when a shard finds no rank with room."""
    ranks = np.empty(len(sizes), dtype=np.int64)
    above = (places.loads - places.targets(costs)).T.copy()  # load - target [K, P]
    room = places.room.copy()
    tight = sizes.sum() > 0.5 * room.sum() or sizes.max(initial=0) > 0.25 * room.min()
    alike = bool(np.all(above == above[:, :1]) and np.all(room == room[0]))
    seen = 1 if alike else len(places)  # the first of equal empty places is taken, so the places behind it never matter
    if allowed is not None:
        order, tight, seen = order[np.argsort(allowed[order].sum(axis=1), kind="stable")], True, len(places)
    for shard in order:
        cost = costs[shard]
        after = above[:, :seen] + cost[:, None]
        score = np.maximum(after, 0.0).sum(axis=0)
        score += _TIE_BREAK * after.sum(axis=0)
        if tight:
            score[room[:seen] < sizes[shard]] = np.inf
        if allowed is not None:
            score[~allowed[shard]] = np.inf
        rank = int(score.argmin())
        if room[rank] < sizes[shard] or (allowed is not None and not allowed[shard, rank]):
            return None
        seen = min(max(seen, rank + 2), len(places))
        ranks[shard] = rank
        above[:, rank] += cost
        room[rank] -= sizes[shard]
    return ranks


def slowest_s(costs: FloatArray, ranks: IntArray, world_size: int) -> FloatArray:
    """Seconds that the slowest rank takes in each phase ``[K]``."""
    return np.array([np.bincount(ranks, weights=c, minlength=world_size).max() for c in costs.T])
