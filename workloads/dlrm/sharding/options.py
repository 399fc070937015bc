"""Ways to shard a single table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from workloads.dlrm.model.columns import most_pieces
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.constraints import PieceRange
from workloads.dlrm.sharding.interfaces import PlanningContext
from workloads.dlrm.sharding.plan_file import ShardingType


@dataclass(frozen=True, slots=True, order=True)
class Option:
    """A way to shard a table: the type, and into how many column ranges."""

    kind: ShardingType
    pieces: int = 1

    @property
    def over_nodes(self) -> bool:
        """Whether rows are spread over the ranks of nodes."""
        return self.kind in ("table_row_wise", "grid_shard")


COPIED, BY_ROWS = Option("data_parallel"), Option("row_wise")


def options_of(dim: int, context: PlanningContext) -> list[Option]:
    """The ways to shard a table of ``dim`` columns: whole, in 2, 4, 8... columns, by rows, over nodes, copied."""
    most = min(int(most_pieces(np.array([dim]))[0]), context.world_size)
    found = [Option("table_wise")]
    found += [Option("column_wise", 2**k) for k in range(1, most.bit_length()) if 2**k <= most]
    found += [BY_ROWS, COPIED]
    nodes = context.world_size // context.local_world_size
    if context.rows_over_nodes and nodes > 1:
        found += [Option("table_row_wise")]
        found += [Option("grid_shard", 2**k) for k in range(1, nodes.bit_length()) if 2**k <= min(nodes, most)]
    return found


def options_for(tables: Tables, context: PlanningContext, table: int) -> list[Option]:
    """The ways to shard a table under its constraints and the constraints of its set; maybe none."""
    limits = context.constraints
    if limits is None or not limits.bound[table]:
        return options_of(int(tables.dim[table]), context)
    return options_within(limits.ways(limits.set_of(table), tables.dim))


def options_within(ways: Mapping[ShardingType, PieceRange]) -> list[Option]:
    """Each sharding type with its fewest and most column ranges, and the powers of two between these."""
    found: list[Option] = []
    for kind, (least, most) in ways.items():
        powers = (2**k for k in range(most.bit_length()) if least < 2**k < most)
        found += [Option(kind, pieces) for pieces in sorted({least, most, *powers})]
    return found
