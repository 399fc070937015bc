"""Improving a placement by moving one shard or swapping two.

The potential is the sum over ranks and phases of the squared overflow, the seconds by which a rank exceeds the mean of
a phase. Each step takes the rank that adds most and makes the move or swap with one of its shards that lowers the
potential most; a rank that no step helps is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray


@dataclass(slots=True)
class _State:
    """A placement under improvement; ``over`` is load minus mean ``[P, K]``, ``room`` free bytes ``[P]``."""

    costs: FloatArray
    sizes: IntArray
    ranks: IntArray
    over: FloatArray
    room: FloatArray

    def potential(self) -> FloatArray:
        """What each rank adds ``[P]``."""
        return _squared(self.over)

    def put(self, shard: int, rank: int) -> None:
        """Move a shard."""
        old = int(self.ranks[shard])
        self.over[old] -= self.costs[shard]
        self.over[rank] += self.costs[shard]
        self.room[old] += self.sizes[shard]
        self.room[rank] -= self.sizes[shard]
        self.ranks[shard] = rank


def refine(costs: FloatArray, sizes: IntArray, ranks: IntArray, room: FloatArray, steps: int) -> IntArray:
    """Rank of each shard ``[S]`` after at most ``steps`` moves and swaps.

    Args:
        costs: seconds per shard and phase ``[S, K]``.
        sizes: bytes per shard ``[S]``.
        ranks: rank of each shard ``[S]``.
        room: bytes free on each rank ``[P]``.
        steps: how many moves and swaps to try.
    """
    over = np.stack([np.bincount(ranks, weights=c, minlength=len(room)) for c in costs.T], axis=1)
    state = _State(costs, sizes, ranks.copy(), np.asarray(over - over.mean(axis=0), dtype=np.float64), room.copy())
    stuck = np.zeros(len(room), dtype=np.bool_)
    for _ in range(steps):
        added = np.where(stuck, 0.0, state.potential())
        rank = int(added.argmax())
        if added[rank] <= 0.0:
            break
        if _improve(state, rank):
            stuck[:] = False
        else:
            stuck[rank] = True
    return state.ranks


def _improve(state: _State, rank: int) -> bool:
    """Make the best move or swap of a shard of ``rank``; False when none lowers the potential."""
    best = -1e-9 * float(state.potential()[rank])
    action: tuple[int, int, int] | None = None
    for shard in np.flatnonzero(state.ranks == rank):
        for gain, partner in (_best_move(state, int(shard)), _best_swap(state, int(shard))):
            if gain < best:
                best, action = gain, (int(shard), *partner)
    if action is None:
        return False
    mine, other_shard, other_rank = action
    state.put(mine, other_rank)
    if other_shard >= 0:
        state.put(other_shard, rank)
    return True


def _best_move(state: _State, shard: int) -> tuple[float, tuple[int, int]]:
    """Change of the potential and target of the best move: (change, (-1, rank))."""
    home, cost = state.ranks[shard], state.costs[shard]
    change = _squared(state.over + cost) - state.potential()
    change[(state.room < state.sizes[shard])] = np.inf
    change[home] = np.inf
    target = int(change.argmin())
    left = _squared(state.over[home] - cost) - _squared(state.over[home])
    return float(change[target] + left), (-1, target)


def _best_swap(state: _State, shard: int) -> tuple[float, tuple[int, int]]:
    """Change of the potential and partner of the best swap: (change, (shard, its rank))."""
    home = state.ranks[shard]
    given = state.costs[shard] - state.costs  # what the partner's rank gets more [S, K]
    there, here = state.over[state.ranks], state.over[home]
    change = _squared(there + given) - _squared(there) + _squared(here - given) - _squared(here)
    growth = state.sizes[shard] - state.sizes
    change[(state.ranks == home) | (state.room[state.ranks] < growth) | (state.room[home] < -growth)] = np.inf
    partner = int(change.argmin())
    return float(change[partner]), (partner, int(state.ranks[partner]))


def _squared(over: FloatArray) -> FloatArray:
    """Sum over phases of the squared positive part."""
    return np.asarray((np.maximum(over, 0.0) ** 2).sum(axis=-1))
