"""Planners that see one number per shard: the baselines of the literature.

Greedy placement by size or by lookups is what RecShard (arXiv 2201.10095) and AutoShard (arXiv 2208.06399) compare
with; the largest differencing method is Karmarkar and Karp's (The differencing method of set partitioning, UCB/CSD
82/113, 1982) for any number of sets. Tables are cut by columns only as far as they must be.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from inputs.errors import InfeasibleError
from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.model.columns import cut_columns
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.interfaces import PLANNERS, PlanningContext
from workloads.dlrm.sharding.placing import all_tables, fitting_pieces, place_by, shard_bytes, wanted_pieces
from workloads.dlrm.sharding.plan import Plan, make_plan
from workloads.dlrm.sharding.shards import ColumnShards

_Sums: TypeAlias = list[tuple[float, tuple[int, ...]]]
"""A partial solution: sums of sets and their members, largest sum first, without empty sets."""


def greedy_size(tables: Tables, context: PlanningContext) -> Plan:
    """Largest shard first, onto the rank that has the fewest bytes.

    Raises:
        InfeasibleError: the shards do not fit.
    """
    columns = _cut(tables, fitting_pieces(tables, context))
    sizes = shard_bytes(tables, context, columns.table, columns.dim).astype(np.float64)
    return _by_one_number(tables, columns, sizes, context, "greedy_size")


def greedy_lookups(tables: Tables, context: PlanningContext) -> Plan:
    """Most looked-up shard first, onto the rank that has the fewest lookups.

    Raises:
        InfeasibleError: the shards do not fit.
    """
    columns = _cut(tables, fitting_pieces(tables, context))
    return _by_one_number(tables, columns, tables.lookups_per_sample[columns.table], context, "greedy_lookups")


def karmarkar_karp(tables: Tables, context: PlanningContext) -> Plan:
    """Shards of at most a rank's mean cost, spread by the largest differencing method over all phases' seconds.

    Raises:
        InfeasibleError: the shards do not fit.
    """
    pieces = wanted_pieces(tables, all_tables(tables), context, context.memory_bytes, cost_share=1.0)
    columns = _cut(tables, pieces)
    costs = context.costs.column_shard_s(columns.table, columns.dim).sum(axis=1)
    rank = largest_differencing(costs, context.world_size)
    rank = _with_room(rank, costs, shard_bytes(tables, context, columns.table, columns.dim), context)
    return make_plan(
        tables,
        context.world_size,
        context.local_world_size,
        "karmarkar_karp",
        columns=replace(columns, rank=rank),
    )


def largest_differencing(costs: FloatArray, sets: int) -> IntArray:
    """Set of each number ``[S]``, so that the sums of the sets are close to each other.

    The two partial solutions with the largest spread between their largest and smallest sum become one, the largest sum
    of one with the smallest of the other.
    """
    heap: list[tuple[float, int, _Sums]] = [
        (-float(cost), number, [(float(cost), (number,))]) for number, cost in enumerate(costs)
    ]
    heapq.heapify(heap)
    while len(heap) > 1:
        _, first, one = heapq.heappop(heap)
        _, second, other = heapq.heappop(heap)
        joined = _merge_reversed(one, other, sets)
        spread = joined[0][0] - (joined[-1][0] if len(joined) == sets else 0.0)
        heapq.heappush(heap, (-spread, min(first, second), joined))
    found = np.zeros(len(costs), dtype=np.int64)
    for number, (_, members) in enumerate(heap[0][2] if heap else []):
        found[list(members)] = number
    return found


def _merge_reversed(one: _Sums, other: _Sums, sets: int) -> _Sums:
    """Two partial solutions as one: only the smallest sums of both share sets, where they are more than ``sets``."""
    shared = max(0, len(one) + len(other) - sets)
    pairs = zip(one[len(one) - shared :], reversed(other[len(other) - shared :]), strict=True)
    both = [(a + b, (*members, *more)) for (a, members), (b, more) in pairs]
    return sorted(
        (*one[: len(one) - shared], *other[: len(other) - shared], *both), key=lambda part: (-part[0], part[1])
    )


def _cut(tables: Tables, pieces: IntArray) -> ColumnShards:
    """Column shards without a place."""
    table, column, dim = cut_columns(all_tables(tables), tables.dim, pieces)
    return ColumnShards(table, np.zeros_like(table), column, dim)


def _by_one_number(
    tables: Tables, columns: ColumnShards, costs: FloatArray, context: PlanningContext, name: str
) -> Plan:
    placed = place_by(tables, columns, costs[:, None], context, context.memory_bytes)
    return make_plan(tables, context.world_size, context.local_world_size, name, columns=placed)


def _with_room(rank: IntArray, costs: FloatArray, sizes: IntArray, context: PlanningContext) -> IntArray:
    """Move the largest shards of overfull ranks to the least loaded ranks with room ``[S]``.

    Raises:
        InfeasibleError: there is none.
    """
    rank, count = rank.copy(), context.world_size
    used = np.bincount(rank, weights=sizes, minlength=count)
    load = np.bincount(rank, weights=costs, minlength=count)
    for shard in np.argsort(-sizes, kind="stable"):
        home = rank[shard]
        if used[home] <= context.memory_bytes:
            continue
        fits = used + sizes[shard] <= context.memory_bytes
        if not fits.any():
            break
        target = int(np.where(fits, load, np.inf).argmin())
        for values, value in ((used, float(sizes[shard])), (load, float(costs[shard]))):
            values[home] -= value
            values[target] += value
        rank[shard] = target
    if used.max() > context.memory_bytes:
        raise InfeasibleError(
            f"{len(sizes)} shards balanced by cost do not fit on {count} ranks with "
            f"{context.memory_bytes / 1e9:.2f} GB each for tables; one rank would have {used.max() / 1e9:.2f} GB"
        )
    return rank


PLANNERS.add("greedy_size", greedy_size, "largest shard first onto the rank with the fewest bytes")
PLANNERS.add("greedy_lookups", greedy_lookups, "most looked-up shard first onto the rank with the fewest lookups")
PLANNERS.add("karmarkar_karp", karmarkar_karp, "largest differencing method over costs (Karmarkar and Karp)")
