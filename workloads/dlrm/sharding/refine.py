"""Improving a placement by moving one shard or swapping two.

The potential is the sum over ranks and phases of the squared overflow, the seconds by which a rank exceeds the target
of a phase. Each step takes the rank that adds most and makes the move or swap with one of its shards that lowers the
potential most; a rank that no step helps is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray

GOOD_ENOUGH = 1e-3
"""Overflow, as a share of an iteration's targets, below which a rank is left alone."""


@dataclass(slots=True)
class _State:
    """A placement under improvement; ``over`` is load minus target ``[P, K]``, ``room`` free bytes ``[P]``."""

    costs: FloatArray
    sizes: IntArray
    ranks: IntArray
    over: FloatArray
    room: FloatArray

    def potential(self) -> FloatArray:
        """Contribution of each rank ``[P]``."""
        return _squared(self.over)

    def put(self, shard: int, rank: int) -> None:
        """Move a shard."""
        old = int(self.ranks[shard])
        self.over[old] -= self.costs[shard]
        self.over[rank] += self.costs[shard]
        self.room[old] += self.sizes[shard]
        self.room[rank] -= self.sizes[shard]
        self.ranks[shard] = rank


@dataclass(frozen=True, slots=True)
class Refined:
    """The ranks on which a placement is improved.

    Attributes:
        room: bytes free on each rank ``[P]``.
        loads: seconds of each phase that the rank has beside the shards ``[P, K]``.
        targets: load of a rank and phase up to which no rank waits ``[K]``.
    """

    room: FloatArray
    loads: FloatArray
    targets: FloatArray


def refine(costs: FloatArray, sizes: IntArray, ranks: IntArray, on: Refined, steps: int) -> IntArray:
    """Rank of each shard ``[S]`` after at most ``steps`` moves and swaps.

    Args:
        costs: seconds per shard and phase ``[S, K]``.
        sizes: bytes per shard ``[S]``.
        ranks: rank of each shard ``[S]``.
        steps: number of moves and swaps to try.
    """
    targets, count = on.targets, len(on.room)
    shards = np.stack([np.bincount(ranks, weights=c, minlength=count) for c in costs.T], axis=1)
    state = _State(costs, sizes, ranks.copy(), np.asarray(on.loads + shards - targets), on.room.copy())
    stuck = np.zeros(count, dtype=np.bool_)
    for _ in range(steps):
        added = np.where(stuck, 0.0, state.potential())
        rank = int(added.argmax())
        if added[rank] <= (GOOD_ENOUGH * targets.sum()) ** 2:
            break
        if _improve(state, rank):
            stuck[:] = False
        else:
            stuck[rank] = True
    return state.ranks


def _improve(state: _State, rank: int) -> bool:
    """Make the best move or swap of a shard of ``rank``; False when none lowers the potential."""
    mine = np.flatnonzero(state.ranks == rank)
    if not len(mine):
        return False
    moves, swaps = _moves(state, rank, mine), _swaps(state, rank, mine)
    least = -1e-9 * float(_squared(state.over[rank]))
    if min(moves.min(initial=0.0), swaps.min(initial=0.0)) >= least:
        return False
    if moves.min() <= swaps.min():
        shard, target = np.unravel_index(int(moves.argmin()), moves.shape)
        state.put(int(mine[shard]), int(target))
    else:
        shard, other = np.unravel_index(int(swaps.argmin()), swaps.shape)
        target = state.ranks[other]
        state.put(int(mine[shard]), int(target))
        state.put(int(other), rank)
    return True


def _moves(state: _State, home: int, mine: IntArray) -> FloatArray:
    """Change of the potential when a shard of rank ``home`` moves to another rank ``[mine, P]``."""
    cost, potential = state.costs[mine], state.potential()
    change = _squared(state.over[None] + cost[:, None]) - potential
    change += (_squared(state.over[home] - cost) - potential[home])[:, None]
    change[state.room[None] < state.sizes[mine][:, None]] = np.inf
    change[:, home] = np.inf
    return change


def _swaps(state: _State, home: int, mine: IntArray) -> FloatArray:
    """Change of the potential when a shard of rank ``home`` and another shard change places ``[mine, S]``."""
    up, down = np.zeros((len(mine), len(state.ranks))), np.zeros((len(mine), len(state.ranks)))
    for cost, there, here in zip(state.costs.T, state.over[state.ranks].T, state.over[home], strict=True):
        given = cost[mine][:, None] - cost[None]  # increase of the other rank's load in a phase [mine, S]
        up += np.maximum(there[None] + given, 0.0) ** 2
        down += np.maximum(here - given, 0.0) ** 2
    change = up - _squared(state.over)[state.ranks][None] + down - _squared(state.over[home])
    growth = state.sizes[mine][:, None] - state.sizes[None]
    change[(state.ranks == home)[None] | (state.room[state.ranks][None] < growth) | (state.room[home] < -growth)] = (
        np.inf
    )
    return change


def _squared(over: FloatArray) -> FloatArray:
    """Sum over phases of the squared positive part."""
    return np.asarray((np.maximum(over, 0.0) ** 2).sum(axis=-1))
