"""Prices of options for tables.

The cost of an option is the load it adds to the mean rank, and what its largest shard exceeds the mean load of a rank
by, for which all ranks wait.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.model.columns import cut_columns
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.interfaces import PlanningContext
from workloads.dlrm.sharding.options import Option
from workloads.dlrm.sharding.placing import all_tables, block_bytes, shard_bytes


@dataclass(frozen=True, slots=True)
class OptionPrices:
    """An option's price for each table.

    Attributes:
        added_s: load that it adds to the mean rank, seconds ``[N]``.
        slowest_s: seconds of the slowest column range, 0 where all ranks have a part of the table ``[N]``.
        size: bytes over all ranks ``[N]``.
        largest: bytes of the largest shard ``[N]``.
    """

    added_s: FloatArray
    slowest_s: FloatArray
    size: FloatArray
    largest: FloatArray

    def cost_s(self, mean_s: float) -> FloatArray:
        """Cost of each table, where the mean rank has a load of ``mean_s`` if all tables are whole, seconds ``[N]``."""
        return np.asarray(self.added_s + np.maximum(0.0, self.slowest_s - mean_s))

    def cost_together_s(self, members: IntArray, mean_s: float) -> float:
        """Cost of tables whose ranges are on the same ranks, seconds."""
        return float(self.added_s[members].sum() + max(0.0, float(self.slowest_s[members].sum()) - mean_s))


def mean_load_s(tables: Tables, context: PlanningContext) -> float:
    """Load of the mean rank if all tables are whole, seconds."""
    whole = context.costs.column_shard_s(all_tables(tables), tables.dim).sum(axis=1)
    return float(whole.sum()) / context.world_size


def price_option(tables: Tables, context: PlanningContext, option: Option) -> OptionPrices:
    """Prices if all tables have an option."""
    everything, world_size = all_tables(tables), context.world_size
    if option.kind == "data_parallel":
        return _everywhere(context, context.costs.data_parallel_s(), context.copied_bytes(tables))
    if option.kind == "row_wise":
        blocks = block_bytes(tables, context, everything, tables.dim, world_size)
        return _everywhere(context, context.costs.row_wise_s(), blocks)
    shard, _, dim = cut_columns(everything, tables.dim, np.full(len(tables), option.pieces))
    if option.over_nodes:
        ranks = context.local_world_size
        costs, sizes = context.costs.node_shard_s(shard, dim), block_bytes(tables, context, shard, dim, ranks)
    else:
        ranks, costs, sizes = 1, context.costs.column_shard_s(shard, dim), shard_bytes(tables, context, shard, dim)
    seconds = costs.sum(axis=1)
    slowest, largest = np.zeros(len(tables)), np.zeros(len(tables))
    np.maximum.at(slowest, shard, seconds)
    np.maximum.at(largest, shard, sizes)
    added = np.bincount(shard, weights=seconds, minlength=len(tables)) * ranks / world_size
    size = np.bincount(shard, weights=sizes, minlength=len(tables)) * ranks
    return OptionPrices(np.asarray(added), slowest, np.asarray(size), largest)


def _everywhere(context: PlanningContext, costs: FloatArray, held: IntArray) -> OptionPrices:
    """Prices of costs ``[N, K]`` on every rank; each rank holds ``held [N]`` bytes."""
    largest = held.astype(np.float64)
    return OptionPrices(np.asarray(costs.sum(axis=1)), np.zeros(len(held)), largest * context.world_size, largest)
