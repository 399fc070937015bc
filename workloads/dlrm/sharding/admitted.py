"""Options that constraints admit, in place of the options that a planner wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from simulator.program import IntArray
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.constraints import PieceRange, TableConstraints
from workloads.dlrm.sharding.interfaces import PlanningContext
from workloads.dlrm.sharding.options import BY_ROWS, Option, options_within
from workloads.dlrm.sharding.placing import MEMORY_SHARE
from workloads.dlrm.sharding.plan_file import OF_ONE_RANGE, ShardingType
from workloads.dlrm.sharding.pricing import OptionPrices, mean_load_s, price_option


def admitted(tables: Tables, context: PlanningContext, options: Sequence[Option]) -> list[Option]:
    """An option for each table that its constraints admit ``[N]``; tables on the same ranks have the same one.

    A wanted option is kept if it is admitted, if need be with another number of column ranges. Otherwise, and for
    tables on the same ranks, the admitted option that costs least is taken, of those whose shards leave room on a rank.

    Args:
        options: the wanted options ``[N]``.
    """
    limits, found = context.constraints, list(options)
    if limits is None:
        return found
    prices = KnownPrices(tables, context)
    for members in limits.sets():
        ways = limits.ways(members, tables.dim)
        kept = _closest(options[members[0]], ways) if len(members) == 1 else None
        kept = kept or min(options_within(ways), key=partial(prices.rank, members))
        for table in members.tolist():
            found[table] = kept
    return found


def smallest_shards(tables: Tables, context: PlanningContext, limits: TableConstraints) -> list[Option]:
    """The option with the smallest shards for constrained tables, row blocks for others ``[N]``."""
    found, prices = [BY_ROWS] * len(tables), KnownPrices(tables, context)
    for members in limits.sets():
        ways = limits.ways(members, tables.dim)
        smallest = min(options_within(ways), key=partial(prices.largest, members))
        for table in members.tolist():
            found[table] = smallest
    return found


@dataclass(slots=True)
class KnownPrices:
    """Prices of options, computed for all tables when an option is first asked for."""

    tables: Tables
    context: PlanningContext
    _mean_s: float = field(init=False)
    _known: dict[Option, OptionPrices] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._mean_s = mean_load_s(self.tables, self.context)

    def rank(self, members: IntArray, option: Option) -> tuple[int, float]:
        """Order of an option of a set of tables: by cost, after options that leave more room on a rank."""
        shard, room = self.largest(members, option), self.context.memory_bytes
        if shard > room:
            return 2, shard
        return int(shard > MEMORY_SHARE * room), self._of(option).cost_together_s(members, self._mean_s)

    def largest(self, members: IntArray, option: Option) -> float:
        """Bytes of the largest shards of a set of tables."""
        return float(self._of(option).largest[members].sum())

    def _of(self, option: Option) -> OptionPrices:
        """The prices of an option for all tables."""
        if option not in self._known:
            self._known[option] = price_option(self.tables, self.context, option)
        return self._known[option]


def _closest(option: Option, ways: Mapping[ShardingType, PieceRange]) -> Option | None:
    """The option with an admitted number of column ranges; None if its type is not admitted."""
    kind = option.kind
    if option.pieces == 1:
        kind = OF_ONE_RANGE.get(kind, kind)
    if kind not in ways:
        return None
    least, most = ways[kind]
    return Option(kind, min(max(option.pieces, least), most))
