"""Options that constraints admit, in place of those that a planner wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.constraints import PieceRange
from workloads.dlrm.sharding.interfaces import PlanningContext
from workloads.dlrm.sharding.options import BY_ROWS, Option, options_for
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
    limits, found, prices = context.constraints, list(options), _Prices(tables, context)
    for members in [] if limits is None else limits.sets():
        ways = {} if limits is None else limits.ways(members, tables.dim)
        wanted = [_closest(options[table], ways) for table in members.tolist()]
        kept = max((option for option in wanted if option), key=lambda option: option.pieces, default=None)
        kept = kept or min(options_for(tables, context, int(members[0])), key=partial(prices.rank, members))
        for table in members.tolist():
            found[table] = kept
    return found


def smallest_shards(tables: Tables, context: PlanningContext) -> list[Option]:
    """The option with the smallest shards for constrained tables, row blocks for others ``[N]``."""
    limits, found, prices = context.constraints, [BY_ROWS] * len(tables), _Prices(tables, context)
    for members in [] if limits is None else limits.sets():
        smallest = min(options_for(tables, context, int(members[0])), key=partial(prices.largest, members))
        for table in members.tolist():
            found[table] = smallest
    return found


@dataclass(slots=True)
class _Prices:
    """Prices of options, computed for all tables when an option is first asked for."""

    tables: Tables
    context: PlanningContext
    _known: dict[Option, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    def rank(self, members: IntArray, option: Option) -> tuple[int, float]:
        """Order of an option of a set of tables: by cost, after options that leave more room on a rank."""
        shard, room = self.largest(members, option), self.context.memory_bytes
        if shard > room:
            return 2, shard
        return int(shard > MEMORY_SHARE * room), float(self._of(option)[0][members].sum())

    def largest(self, members: IntArray, option: Option) -> float:
        """Bytes of the largest shards of a set of tables."""
        return float(self._of(option)[1][members].sum())

    def _of(self, option: Option) -> tuple[FloatArray, FloatArray]:
        """Cost, and bytes of the largest shard, of all tables ``[N]``."""
        if option not in self._known:
            mean_s = mean_load_s(self.tables, self.context)
            cost, _, largest = price_option(self.tables, self.context, option, mean_s)
            self._known[option] = cost, largest
        return self._known[option]


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
