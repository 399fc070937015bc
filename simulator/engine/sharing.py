r"""Bottleneck fairness: speeds of activities that use the same resources.

Activity k alone would use the share :math:`u_{kl} \in (0, 1]` of resource l. It gets :math:`x_k \in (0, 1]` of its
alone speed such that

* no resource is over capacity, :math:`\sum_k x_k u_{kl} \le 1`, and
* every activity has :math:`x_k = 1` or a saturated resource on which no other has a larger :math:`x u`.

(Bonald and Roberts, "Multi-resource fairness: objectives, algorithms and performance", SIGMETRICS 2015, call this
bottleneck max fairness.) Example: A uses 60 % of a port, B all of it: each gets half the port, A runs at 5/6, B at 1/2.

*Filling.* The level of a resource is what is left of it over the number of activities still open on it; the speed
an activity could have is the smallest level / u over its resources. Levels only rise while activities are closed at
or below them, so an activity that could have 1 gets it, and so does everyone on a resource that is the bottleneck of
all its open activities. Nothing in this compares one part of a component with another: a thousand nodes whose ports are
shared with one global collective are closed in two or three rounds, not in a thousand, and the result does not change
when several components are solved in one call.

*Cycles.* Two uneven collectives can each be held back by a resource that the other one does not consider its
bottleneck; then no resource has everyone's consent. What is left is solved by Newton's method on the levels: guess
each activity's bottleneck, solve the linear system, look where the guess was wrong.

Saturation is equality with the minimum, not a tolerance; sums run in the order of the activities given, so that the
same activities in the same order give the same bits.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.engine.members import run_begins, run_lengths
from simulator.operators import FloatArray
from simulator.program import IntArray

_NEWTON_STEPS = 100
_ROUNDING = 1e-12  # relative error left by the linear system


class SharingModel(Protocol):
    """Divides resources among the activities of one or more connected components."""

    def __call__(self, counts: IntArray, resources: IntArray, usage: FloatArray) -> FloatArray:
        """Speeds of the activities.

        Args:
            counts: number of resources each activity uses ``[K]``.
            resources: resource numbers, activity after activity ``[sum(counts)]``.
            usage: share of each resource, of what is left of it, used when alone ``[sum(counts)]``; above 1 where
                that is not enough for one activity alone.

        Returns:
            Speeds ``[K]`` as a fraction of the alone speed, in (0, 1].
        """
        ...


def bottleneck_fairness(counts: IntArray, resources: IntArray, usage: FloatArray) -> FloatArray:
    """Speeds under bottleneck fairness; see `SharingModel` for shapes and the module for the definition."""
    speeds = np.ones(len(counts))
    if len(resources) == 0:
        return speeds
    owner = np.repeat(np.arange(len(counts)), counts)
    left = np.ones(int(resources.max()) + 1)
    while len(owner):
        first = run_begins(owner)
        local = np.repeat(np.arange(len(first)), run_lengths(first, len(owner)))
        users = np.bincount(resources, minlength=len(left))
        reach = left[resources] / users[resources] / usage  # exactly 1 / usage for an activity alone
        possible = np.minimum.reduceat(reach, first)
        closed = possible >= 1.0
        if closed.any():
            possible = np.minimum(possible, 1.0)
        else:
            closed = _by_consent(local, resources, users, reach == possible[local], len(first))
            if not closed.any():
                speeds[owner[first]] = _cyclic(local, resources, usage, left)
                return speeds
        speeds[owner[first[closed]]] = possible[closed]
        entry = closed[local]
        taken = (usage * possible[local])[entry]
        left = np.maximum(left - np.bincount(resources[entry], weights=taken, minlength=len(left)), 0.0)
        owner, resources, usage = owner[~entry], resources[~entry], usage[~entry]
    return speeds


def _by_consent(
    local: IntArray, resources: IntArray, users: IntArray, tight: NDArray[np.bool_], count: int
) -> NDArray[np.bool_]:
    """Activities ``[count]`` that sit on a resource which is the bottleneck of all its open activities."""
    agreeing = np.bincount(resources[tight], minlength=len(users))
    consent = tight & (agreeing == users)[resources]
    closed = np.zeros(count, dtype=np.bool_)
    closed[local[consent]] = True
    return closed


def _cyclic(local: IntArray, resources: IntArray, usage: FloatArray, left: FloatArray) -> FloatArray:
    """Speeds of activities without a resource of common consent, one connected component after the other."""
    speeds = np.ones(int(local[-1]) + 1)
    component = _components(local, resources, len(speeds), len(left))
    for number in np.unique(component):
        members = np.flatnonzero(component == number)
        entry = component[local] == number
        used, column = np.unique(resources[entry], return_inverse=True)
        table = np.zeros((len(members), len(used)))
        table[np.searchsorted(members, local[entry]), column] = usage[entry]
        speeds[members] = _newton(*_distinct_columns(table, left[used]))
    return speeds


def _distinct_columns(usage: FloatArray, capacity: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Resources that can limit an activity, without duplicates, in an order that does not depend on their numbers."""
    distinct = np.unique(np.vstack([capacity, usage]), axis=1)
    usage, capacity = distinct[1:], distinct[0]
    kept = np.unique(stand_ins(usage.T / np.maximum(capacity, np.finfo(float).tiny)[:, None]))
    return usage[:, kept], capacity[kept]


def stand_ins(columns: FloatArray, most_comparisons: float = np.inf) -> IntArray:
    """The resource that represents each resource ``[R]``: itself, or a resource that is full whenever it is.

    Another resource with the same users *dominates* a resource if every user takes at least as large a share of the
    other resource. When a dominated resource is full, the dominating resource is full too, and the shares are equal:
    both limit the same users.

    Args:
        columns: share of the remaining capacity of each resource that each activity takes alone, 0 for no user
            ``[R, K]``.
        most_comparisons: largest number of comparisons; after that, the remaining resources represent themselves.
    """
    found = np.arange(len(columns))
    used = columns > 0.0
    set_of = np.zeros(len(columns), np.int64) if used.all() else np.unique(used, axis=0, return_inverse=True)[1]
    totals = columns.sum(axis=1)
    order = np.argsort(set_of, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(set_of[order])) + 1):
        rest = group
        while len(rest) and most_comparisons > 0:
            most_comparisons -= len(rest) * columns.shape[1]
            best = _largest(columns, totals, rest)
            free = (columns[rest] > columns[best]).any(axis=1)
            found[rest[~free]] = best
            rest = rest[free]
    return found


def _largest(columns: FloatArray, totals: FloatArray, rest: IntArray) -> int:
    """The resource with the largest sum of shares, which no other one dominates.

    Sums may be rounded to the same number: then the last shares decide, then the lowest number.
    """
    sums = totals[rest]
    tied = rest[sums == sums.max()]
    return int(tied[0] if len(tied) == 1 else tied[np.lexsort(-columns[tied].T)[0]])


def _components(local: IntArray, resources: IntArray, activities: int, count: int) -> IntArray:
    """Connected component of each activity ``[activities]``, named by its lowest activity."""
    name = np.arange(activities)
    while True:
        on_resource = np.full(count, activities)
        np.minimum.at(on_resource, resources, name[local])
        merged = name.copy()
        np.minimum.at(merged, local, on_resource[resources])
        if np.array_equal(merged, name):
            return name
        name = merged


def _newton(usage: FloatArray, capacity: FloatArray) -> FloatArray:
    """Bottleneck-fair speeds ``[K]`` for a dense table ``usage`` ``[K, R]`` and what is left of each resource ``[R]``.

    A guess that leads to a negative level, or one seen before, is replaced
    by a sweep of water filling, resource by resource, which moves the levels towards the solution and needs no guess.
    """
    level = capacity / (usage > 0).sum(axis=0)
    feasible: FloatArray = np.minimum(_reach(usage, level).min(axis=1), 1.0)
    guess = _bottlenecks(usage, level)
    seen: set[bytes] = set()
    for _ in range(_NEWTON_STEPS):
        solved = None if guess.tobytes() in seen else _solve_guess(usage, capacity, guess)
        seen.add(guess.tobytes())
        if solved is None:
            level = _sweep(usage, capacity, level)
            guess = _bottlenecks(usage, level)
            continue
        speeds, level = solved
        if _is_fair(usage, capacity, speeds):
            return speeds
        level = _levels_with_violations(usage, capacity, speeds, level)
        guess = _bottlenecks(usage, level)
    return feasible  # nobody over capacity, though someone could go faster


def _is_fair(usage: FloatArray, capacity: FloatArray, speeds: FloatArray) -> bool:
    """Whether ``speeds`` meet the definition, up to the rounding of the linear system."""
    shares = speeds[:, None] * usage
    load = speeds @ usage
    full = load >= capacity * (1.0 - _ROUNDING)
    largest = shares >= shares.max(axis=0) * (1.0 - _ROUNDING)
    held = ((usage > 0) & full & largest).any(axis=1)
    return bool(
        np.all(speeds <= 1.0) and np.all(load <= capacity * (1.0 + _ROUNDING)) and np.all(held | (speeds >= 1.0))
    )


def _sweep(usage: FloatArray, capacity: FloatArray, level: FloatArray) -> FloatArray:
    """Each resource in turn filled as if the levels of the others held; resources that stay below capacity drop out."""
    level = level.copy()
    reach = _reach(usage, level)
    holder = reach.argmin(axis=1)
    least = reach[np.arange(len(usage)), holder]
    for resource in range(len(capacity)):
        users = np.flatnonzero(usage[:, resource])
        reach[users, resource] = np.inf
        freed = users[holder[users] == resource]
        holder[freed] = reach[freed].argmin(axis=1)
        least[freed] = reach[freed, holder[freed]]
        shares = usage[users, resource]
        level[resource] = _water_level(np.minimum(least[users], 1.0) * shares, capacity[resource])
        reach[users, resource] = level[resource] / shares
        held = users[reach[users, resource] < least[users]]
        holder[held], least[held] = resource, reach[held, resource]
    return level


def _water_level(shares: FloatArray, capacity: float) -> float:
    """Level at which ``shares`` ``[K]``, cut off at it, fill ``capacity``; infinite if they do not."""
    if shares.sum() <= capacity:
        return np.inf
    shares = shares[np.argsort(-shares, kind="stable")]
    below = np.append(np.cumsum(shares[::-1])[::-1][1:], 0.0)
    levels = (capacity - below) / np.arange(1, len(shares) + 1)
    fits = levels >= np.append(shares[1:], 0.0)
    return float(levels[fits.argmax()])


def _reach(usage: FloatArray, level: FloatArray) -> FloatArray:
    """Speed each resource would allow each activity ``[K, R]``; infinite where it is not used."""
    with np.errstate(divide="ignore", invalid="ignore"):
        reach: FloatArray = np.where(usage > 0, level / usage, np.inf)
    return reach


def _bottlenecks(usage: FloatArray, level: FloatArray) -> IntArray:
    """Resource that holds each activity back ``[K]``, -1 where none does."""
    reach = _reach(usage, level)
    bottleneck: IntArray = reach.argmin(axis=1)
    bottleneck[reach.min(axis=1) >= 1.0] = -1
    return bottleneck


def _solve_guess(usage: FloatArray, capacity: FloatArray, guess: IntArray) -> tuple[FloatArray, FloatArray] | None:
    """Speeds and levels if ``guess`` were right: each guessed bottleneck is full, shared evenly by those it holds.

    None when no positive levels do that.
    """
    level = np.full(len(capacity), np.inf)
    held = np.flatnonzero(guess >= 0)
    speeds = np.ones(len(guess))
    if len(held) == 0:
        return speeds, level
    tight, column = np.unique(guess[held], return_inverse=True)
    shares = usage[np.ix_(held, tight)] / usage[held, guess[held]][:, None]
    matrix = np.zeros((len(tight), len(tight)))
    np.add.at(matrix, column, shares)
    rest = capacity[tight] - usage[guess < 0][:, tight].sum(axis=0)
    try:
        level[tight] = np.linalg.solve(matrix.T, rest)
    except np.linalg.LinAlgError:
        return None
    if not np.all(level[tight] > 0):
        return None
    speeds[held] = level[guess[held]] / usage[held, guess[held]]
    return speeds, level


def _levels_with_violations(
    usage: FloatArray, capacity: FloatArray, speeds: FloatArray, level: FloatArray
) -> FloatArray:
    """Levels, with one added for every resource that ``speeds`` would overload without anyone being held there."""
    level = level.copy()
    load = speeds @ usage
    for resource in np.flatnonzero((load > capacity * (1.0 + _ROUNDING)) & np.isinf(level)):
        level[resource] = _water_level(speeds * usage[:, resource], capacity[resource])
    return level
