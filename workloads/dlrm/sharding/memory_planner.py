"""Dynamic programming over memory: the cheapest way to shard every table within a budget of bytes.

Each table takes one of its options; an option has a cost and a number of bytes over all ranks. The least total cost for
every budget follows table by table (a multiple-choice knapsack). Budgets below the whole memory are tried too, because
shards do not pack into ranks without gaps; TorchRec's dynamic programming proposer does likewise. The cost of an option
is the load it adds to the mean rank, and what its largest shard exceeds the mean load of a rank by, for which all ranks
wait. Where it can be helped no shard takes more than half a rank, so that shards can be packed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inputs.errors import InfeasibleError
from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.composing import compose
from workloads.dlrm.sharding.costs import plan_cost_s
from workloads.dlrm.sharding.interfaces import PLANNERS, PlanningContext
from workloads.dlrm.sharding.options import Option, options_of, options_within
from workloads.dlrm.sharding.placing import MEMORY_SHARE
from workloads.dlrm.sharding.plan import Plan
from workloads.dlrm.sharding.pricing import mean_load_s, price_option

MOST_BINS, BINS_PER_TABLE = 4096, 32
"""Resolution of the budget: bins over the memory of all ranks, at most and per table."""

BUDGETS = (1.0, 0.95, 0.85, 0.7, 0.5)
"""Shares of the memory of all ranks for which a plan is made."""


@dataclass(frozen=True, slots=True)
class _Priced:
    """Options, what each costs each table (seconds, infinite where it has not got it) and its bytes over all ranks.

    ``cost_s`` and ``size`` are ``[N, O]``.
    """

    options: tuple[Option, ...]
    cost_s: FloatArray
    size: FloatArray


def dynamic_programming(tables: Tables, context: PlanningContext) -> Plan:
    """The best of the plans for several budgets.

    Raises:
        InfeasibleError: none fits.
    """
    priced = _price(tables, context)
    total = max(context.memory_bytes, 0.0) * context.world_size
    bins = min(MOST_BINS, BINS_PER_TABLE * len(tables))
    choice = _solve(priced, total / bins, bins)
    failure = InfeasibleError("no choice of options fits into the memory of all ranks")
    best: tuple[float, Plan] | None = None
    for budget in BUDGETS:
        options = _options_within(priced, choice, total / bins, int(budget * bins))
        try:
            if options is None:
                raise failure
            plan = compose(tables, context, options, "dynamic_programming")
        except InfeasibleError as error:
            failure = error
            continue
        slowest = plan_cost_s(plan, context.costs)
        if best is None or slowest < best[0]:
            best = (slowest, plan)
    if best is None:
        raise failure
    return best[1]


def _solve(priced: _Priced, bin_bytes: float, bins: int) -> IntArray:
    """Option of each table for every number of bins still free ``[N, bins + 1]``, -1 where none fits.

    ``least[b]`` is the least cost of the tables so far in b bins.
    """
    least = np.zeros(bins + 1)
    choice = np.full((len(priced.cost_s), bins + 1), -1, dtype=np.int16)
    for table, (costs, sizes) in enumerate(zip(priced.cost_s, priced.size, strict=True)):
        best = np.full(bins + 1, np.inf)
        for number in np.flatnonzero(np.isfinite(costs)):
            taken = _bins(sizes[number], bin_bytes)
            if taken > bins:
                continue
            with_it = np.full(bins + 1, np.inf)
            with_it[taken:] = least[: bins + 1 - taken] + costs[number]
            better = with_it < best
            best[better] = with_it[better]
            choice[table, better] = number
        least = best
    return np.asarray(choice)


def _options_within(priced: _Priced, choice: IntArray, bin_bytes: float, free: int) -> list[Option] | None:
    """The options that cost least within ``free`` bins, in order of the tables; None when nothing fits."""
    found: list[Option] = []
    for table in range(len(choice) - 1, -1, -1):
        number = int(choice[table, free])
        if number < 0:
            return None
        found.append(priced.options[number])
        free -= _bins(priced.size[table, number], bin_bytes)
    return found[::-1]


def _bins(size: float, bin_bytes: float) -> int:
    """Bins that ``size`` bytes take, to the nearest: errors of many tables even out, and placing checks the bytes."""
    return round(size / bin_bytes) if bin_bytes > 0 else MOST_BINS + 1


def _options_of_all(tables: Tables, context: PlanningContext) -> list[frozenset[Option]]:
    """Options of each table ``[N]``."""
    limits = context.constraints
    by_dim = {int(dim): frozenset(options_of(int(dim), context)) for dim in np.unique(tables.dim)}
    found = [by_dim[int(dim)] for dim in tables.dim]
    if limits is None:
        return found
    for members in limits.sets():
        admitted = frozenset(options_within(limits.ways(members, tables.dim)))
        for table in members.tolist():
            found[table] = admitted
    return found


def _price(tables: Tables, context: PlanningContext) -> _Priced:
    """The options of all tables."""
    own = _options_of_all(tables, context)
    options, mean_s = tuple(sorted(frozenset().union(*own))), mean_load_s(tables, context)
    found = [price_option(tables, context, option) for option in options]
    has = np.array([[option in mine for option in options] for mine in own])
    cost_s = np.stack([prices.cost_s(mean_s) for prices in found], axis=1)
    size, largest = (np.stack([getattr(prices, key) for prices in found], axis=1) for key in ("size", "largest"))
    small, fits = (has & (largest <= share * context.memory_bytes) for share in (MEMORY_SHARE, 1.0))
    usable = np.where(small.any(axis=1, keepdims=True), small, fits)
    return _Priced(options, np.where(usable, cost_s, np.inf), size)


PLANNERS.add(
    "dynamic_programming", dynamic_programming, "least cost within the memory of all ranks, an option for each table"
)
