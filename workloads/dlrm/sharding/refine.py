"""Improving a placement by moving one shard or swapping two.

The potential is the sum over ranks and phases of the squared overflow, the seconds by which a rank exceeds the target
of a phase. Each step takes the rank that adds most and makes the move or swap with one of its shards that lowers the
potential most; a rank that no step helps is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.operators import FloatArray
from simulator.program import IntArray

GOOD_ENOUGH = 1e-3
"""Overflow, as a share of an iteration's targets, below which a rank is left alone."""


@dataclass(slots=True)
class _State:
    """A placement under improvement.

    ``over`` is load minus target ``[P, K]``, ``room`` free bytes ``[P]``, ``allowed`` as in `Refined`.
    """

    costs: FloatArray
    sizes: IntArray
    ranks: IntArray
    over: FloatArray
    room: FloatArray
    allowed: NDArray[np.bool_] | None

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
        allowed: whether a shard may be on a rank ``[S, P]``; None: every shard may be on any rank.
    """

    room: FloatArray
    loads: FloatArray
    targets: FloatArray
    allowed: NDArray[np.bool_] | None = None


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
    state = _State(costs, sizes, ranks.copy(), np.asarray(on.loads + shards - targets), on.room.copy(), on.allowed)
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
    moves, least = _moves(state, rank, mine), -1e-9 * float(_squared(state.over[rank]))
    move = float(moves.min())
    swap = _best_swap(state, rank, mine, min(move, least))
    if swap is not None:
        shard, other = swap
        target = int(state.ranks[other])
        state.put(shard, target)
        state.put(other, rank)
    elif move < least:
        shard, target = (int(n) for n in np.unravel_index(int(moves.argmin()), moves.shape))
        state.put(int(mine[shard]), target)
    return swap is not None or move < least


def _moves(state: _State, home: int, mine: IntArray) -> FloatArray:
    """Change of the potential when a shard of rank ``home`` moves to another rank ``[mine, P]``."""
    cost, potential = state.costs[mine], state.potential()
    change = _squared(state.over[None] + cost[:, None]) - potential
    change += (_squared(state.over[home] - cost) - potential[home])[:, None]
    change[state.room[None] < state.sizes[mine][:, None]] = np.inf
    change[:, home] = np.inf
    if state.allowed is not None:
        change[~state.allowed[mine]] = np.inf
    return change


def _best_swap(state: _State, home: int, mine: IntArray, limit: float) -> tuple[int, int] | None:
    """Shard of rank ``home`` and other shard whose swap changes the potential most, if by less than ``limit`` < 0.

    No swap with a rank gains more than sharing the overflow of both evenly would, so ranks with which that gains less
    than the best swap so far are not looked at.
    """
    potential = state.potential()
    shared = 2.0 * _squared((state.over + state.over[home]) / 2.0)
    gains = shared - (1.0 + _ROUNDING) * (potential + potential[home])
    gains[home] = np.inf
    order, done, count = np.argsort(gains), 0, 1
    best = (limit, -1, -1)
    while done < len(order) and gains[order[done]] < best[0]:
        some = order[done : done + count]
        looked_at = np.zeros(len(gains), dtype=np.bool_)
        looked_at[some[gains[some] < best[0]]] = True
        others = np.flatnonzero(looked_at[state.ranks])
        if len(others):
            change = _swaps(state, home, mine, others)
            shard, other = np.unravel_index(int(change.argmin()), change.shape)
            best = min(best, (float(change[shard, other]), int(mine[shard]), int(others[other])))
        done, count = done + count, 2 * count
    return None if best[1] < 0 else best[1:]


_ROUNDING = 1e-9
"""Relative error of a change of the potential, more than there can be."""


def _swaps(state: _State, home: int, mine: IntArray, others: IntArray) -> FloatArray:
    """Change of the potential when a shard of rank ``home`` and one of ``others`` change places ``[mine, others]``."""
    up, down, given, over = (np.zeros((len(mine), len(others))) for _ in range(4))
    ranks = state.ranks[others]
    for cost, there, here in zip(state.costs.T, state.over.T, state.over[home], strict=True):
        np.subtract.outer(cost[mine], cost[others], out=given)  # increase of the other rank's load in a phase
        up += _overflow(np.add(there[ranks], given, out=over))
        down += _overflow(np.subtract(here, given, out=over))
    up -= _squared(state.over)[ranks]
    up += down
    change = np.subtract(up, _squared(state.over[home]), out=up)
    growth = state.sizes[mine][:, None] - state.sizes[others]
    change[(state.room[ranks] < growth) | (state.room[home] < -growth)] = np.inf
    if state.allowed is not None:
        change[~state.allowed[mine][:, ranks] | ~state.allowed[others, home]] = np.inf
    return change


def _overflow(over: FloatArray) -> FloatArray:
    """The squared positive part, in place."""
    return np.square(np.maximum(over, 0.0, out=over), out=over)


def _squared(over: FloatArray) -> FloatArray:
    """Sum over phases of the squared positive part."""
    return np.asarray((np.maximum(over, 0.0) ** 2).sum(axis=-1))
