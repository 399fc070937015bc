"""Options that constraints admit, in place of those that a planner wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.constraints import PieceRange
from workloads.dlrm.sharding.interfaces import PlanningContext
from workloads.dlrm.sharding.options import Option, options_for
from workloads.dlrm.sharding.placing import MEMORY_SHARE
from workloads.dlrm.sharding.plan_file import ShardingType
from workloads.dlrm.sharding.pricing import mean_load_s, price_option


def admitted(tables: Tables, context: PlanningContext, options: Sequence[Option]) -> list[Option]:
    """An option for each table that its constraints admit ``[N]``; tables on the same ranks have the same one.

    A wanted option is kept if it is admitted, with the closest number of column ranges otherwise, or becomes the
    admitted one that costs least, of those whose shards leave room on a rank.

    Args:
        options: the wanted options ``[N]``.
    """
    limits, found = context.constraints, list(options)
    if limits is None:
        return found

    @cache
    def priced(option: Option) -> tuple[FloatArray, FloatArray]:
        """Cost, and bytes of the largest shard, of all tables ``[N]``."""
        cost, _, largest = price_option(tables, context, option, mean_s)
        return cost, largest

    mean_s = mean_load_s(tables, context)
    for members in limits.sets():
        ways = limits.ways(members, tables.dim)
        wanted = [_closest(options[table], ways) for table in members.tolist()]
        kept = max((option for option in wanted if option), key=lambda option: option.pieces, default=None)
        if kept is None:
            choices = options_for(tables, context, int(members[0]))
            kept = min(choices, key=lambda option: _rank(members, *priced(option), context.memory_bytes))
        for table in members.tolist():
            found[table] = kept
    return found


def _closest(option: Option, ways: Mapping[ShardingType, PieceRange]) -> Option | None:
    """The option with an admitted number of column ranges; None if its type is not admitted."""
    kind = option.kind
    if option.pieces == 1:
        kind = _OF_ONE_PIECE.get(kind, kind)
    if kind not in ways:
        return None
    least, most = ways[kind]
    return Option(kind, min(max(option.pieces, least), most))


_OF_ONE_PIECE: Mapping[ShardingType, ShardingType] = {"column_wise": "table_wise", "grid_shard": "table_row_wise"}
"""Types whose single column range makes them another one."""


def _rank(members: IntArray, cost: FloatArray, largest: FloatArray, memory_bytes: float) -> tuple[int, float]:
    """Order of an option of a set of tables: by cost, after those that leave more room on a rank."""
    shard = float(np.sum(largest[members]))
    if shard > memory_bytes:
        return 2, shard
    return int(shard > MEMORY_SHARE * memory_bytes), float(np.sum(cost[members]))
