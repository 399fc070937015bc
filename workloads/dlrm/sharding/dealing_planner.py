"""Tables dealt to the ranks by size, forth and back: all ranks hold as many, and similar bytes.

As distributed-embeddings does it (its strategy ``memory_balanced``, recalled): the largest tables come first, equal
ones in reverse order; ranks take one each, then in reverse order one each, and so on. Tables above `MOST_ELEMENTS` are
cut into column ranges first, a power of two of them, at most one for each rank. Lookups play no part, so that ranks may
have very different work.
"""

from __future__ import annotations

import numpy as np

from simulator.program import IntArray
from workloads.dlrm.model.columns import cut_columns
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.interfaces import PLANNERS, PlanningContext
from workloads.dlrm.sharding.placing import all_tables, check_everywhere, shard_bytes
from workloads.dlrm.sharding.plan import Plan, make_plan
from workloads.dlrm.sharding.shards import ColumnShards

MOST_ELEMENTS = 1.28e9
"""Most elements of a table that is not cut: the column_slice_threshold of the synthetic benchmark's commands,
recalled."""


def zigzag(tables: Tables, context: PlanningContext) -> Plan:
    """Whole tables, the largest ones in column ranges, as many on each rank.

    Raises:
        InfeasibleError: a rank's shards do not fit.
    """
    table, column, dim = cut_columns(all_tables(tables), tables.dim, _pieces(tables, context.world_size))
    order = np.lexsort((np.arange(len(table)), tables.rows[table] * dim))[::-1]
    rank = np.empty_like(table)
    rank[order] = _zigzag_ranks(len(table), context.world_size)
    sizes = np.bincount(rank, weights=shard_bytes(tables, context, table, dim), minlength=context.world_size)
    check_everywhere(float(sizes.max()), "shards of equal number", context)
    columns = ColumnShards(table, rank, column, dim)
    return make_plan(tables, context.world_size, context.local_world_size, "zigzag", columns=columns)


def _pieces(tables: Tables, ranks: int) -> IntArray:
    """Column ranges of each table ``[N]``: the least power of two that brings it to the limit, at most the ranks."""
    needed = np.ceil(np.log2(np.maximum(tables.rows * tables.dim / MOST_ELEMENTS, 1.0))).astype(np.int64)
    return np.minimum(2**needed, ranks)


def _zigzag_ranks(count: int, ranks: int) -> IntArray:
    """Rank of each of ``count`` shards: 0, 1, ..., P - 1, P - 1, ..., 1, 0, 0, 1 ..."""
    place = np.arange(count) % (2 * ranks)
    return np.minimum(place, 2 * ranks - 1 - place)


PLANNERS.add("zigzag", zigzag, "as many tables on each rank, dealt by size forth and back, the largest cut by columns")
