"""Costs of shards on a machine that is described by a few bandwidths."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from simulator.operators import WIRE_BYTES, FloatArray
from simulator.program import IntArray
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.storage import FUSED, Storage, uniform_storage
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.cache import SSD_READ_BYTES, split_rows
from workloads.dlrm.rows.traffic import TableTraffic, block_shares, popularity_of, sort_bytes, table_traffic
from workloads.dlrm.sharding.plan import Plan
from workloads.dlrm.sharding.shards import row_blocks
from workloads.graph.optimizers import DENSE_ACCESSES, STATE_BYTES, TABLE_STATE

OVERLAP_COST = 0.25
"""Seconds that a second of input exchange costs when it runs beside the other communication (assumed: on ZionEX it
takes a quarter to a third of the network cards from an all_reduce that would use nearly all of them)."""

_AT_A_TIME = 64
"""Tables whose loads are spread over all ranks at once: 8 MB on 4096 ranks."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a rank, bytes per second; the middle four are algbw of collectives.

    Attributes:
        embedding: embedding kernels on the rank's memory.
        all_to_all: over all ranks.
        all_reduce: over all ranks.
        node_reduce_scatter: over the ranks of a node.
        cross_all_to_all: among the ranks with the same place in their nodes.
        host: rows in host memory, over PCIe, when all ranks of a node want them.
        ssd: rows on SSDs, likewise; infinite where there are none.
    """

    embedding: float
    all_to_all: float
    all_reduce: float
    node_reduce_scatter: float
    cross_all_to_all: float
    host: float = float("inf")
    ssd: float = float("inf")


@dataclass(slots=True)
class BandwidthCosts:
    """Seconds that shards take per iteration and phase, from bandwidths: each phase is bytes over a rate.

    Phases as in `workloads.dlrm.sharding.interfaces.PHASES`. An input exchange that the pipeline runs beside the rest
    counts by `OVERLAP_COST`, unless it lasts longer than the rest.
    """

    tables: Tables
    settings: DlrmSettings
    rates: Rates
    storage: Storage | None = None
    _traffic: TableTraffic = field(init=False)
    _input_weight: float = field(init=False)
    _fused: Storage = field(init=False)
    _weights: dict[tuple[int, int], FloatArray] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Keep the common inputs of all calls: traffic of the global batch, and the weight of input exchange."""
        self._fused = uniform_storage(len(self.tables))
        self._traffic = table_traffic(self.tables, float(self.settings.global_batch_size), self.settings)
        everything = np.arange(len(self.tables))
        mean = self._sharded_s(everything, self.tables.dim, 1, self.rates.all_to_all).sum(axis=0)
        hidden = self.settings.pipeline != "none" and mean[-1] <= mean[:-1].sum()
        self._input_weight = OVERLAP_COST if hidden else 1.0

    def stored(self, storage: Storage) -> BandwidthCosts:
        """The same with tables in the memory that these kernels put them in."""
        return BandwidthCosts(self.tables, self.settings, self.rates, storage)

    def of(self, tables: Tables) -> BandwidthCosts:
        """Costs of shards of other tables in the same job."""
        return replace(self, tables=tables)

    def column_shard_s(self, table: IntArray, dim: IntArray) -> FloatArray:
        """Seconds per shard and phase ``[S, 4]``."""
        return self._weighted(self._sharded_s(table, dim, ranks=1, wire=self.rates.all_to_all))

    def node_shard_s(self, table: IntArray, dim: IntArray) -> FloatArray:
        """Seconds per shard and phase on each rank of the node ``[S, 4]``.

        Pooled vectors take a reduce_scatter in the node, then an all_to_all of the part of it that a rank has.
        """
        ranks = self.settings.local_world_size
        per_byte_s = 1.0 / self.rates.node_reduce_scatter + 1.0 / (ranks * self.rates.cross_all_to_all)
        wire = 1.0 / per_byte_s if per_byte_s > 0.0 else math.inf  # a rank alone sends nothing
        return self._weighted(self._sharded_s(table, dim, ranks, wire))

    def row_wise_s(self) -> FloatArray:
        """Seconds per table and phase on every rank ``[N, 4]``.

        reduce_scatter and all_gather both move half of what an all_reduce of the same buffer moves, hence twice its
        algbw.
        """
        everything, ranks = np.arange(len(self.tables)), self.settings.world_size
        return self._weighted(self._sharded_s(everything, self.tables.dim, ranks, 2 * self.rates.all_reduce))

    def data_parallel_s(self) -> FloatArray:
        """Seconds per table and phase on every rank ``[N, 4]``.

        Lookups of the local batch, an all_reduce of the whole gradient, a dense update.
        """
        tables, settings = self.tables, self.settings
        everything = np.arange(len(tables))
        traffic = table_traffic(tables, float(settings.local_batch_size), settings)
        summed = tables.rows * tables.dim * WIRE_BYTES[settings.precision.all_reduce]
        fused = uniform_storage(len(tables))
        forward_s, update_s = self._kernel_s(traffic, everything, tables.dim, ranks=1, storage=fused)
        columns = (
            forward_s,
            update_s + DENSE_ACCESSES[settings.optimizer.dense] * tables.weight_bytes / self.rates.embedding,
            summed / self.rates.all_reduce,
        )
        return np.stack([*columns, np.zeros(len(tables))], axis=1)

    def block_weights(self, table: IntArray, blocks: int) -> FloatArray:
        """Seconds of each block of rows of tables over those of a block of the mean ``[S, blocks, 4]``.

        Lookups and indices follow the lookups that popular rows draw to their block, updates its distinct rows; every
        block has all pooled vectors. Blocks of tables whose rows are all alike count as equal.
        """
        found = np.ones((len(table), blocks, 4))
        for shard, number in enumerate(table.tolist()):
            known = self._weights.get((number, blocks))
            if known is None:
                known = self._weights[number, blocks] = self._weights_of(number, blocks)
            found[shard] = known
        return found

    def _weights_of(self, table: int, blocks: int) -> FloatArray:
        """``[blocks, 4]``."""
        if len(popularity_of(self.tables, self.settings, table).count) == 1:
            return np.ones((blocks, 4))
        number = np.array([table])
        lookups, distinct = block_shares(
            self.tables, self.settings, number, row_blocks(self.tables.rows[number], blocks)
        )
        return np.stack([lookups[0] * blocks, distinct[0] * blocks, np.ones(blocks), lookups[0] * blocks], axis=1)

    def _weighted(self, seconds: FloatArray) -> FloatArray:
        seconds[:, -1] *= self._input_weight
        return seconds

    def _sharded_s(self, table: IntArray, dim: IntArray, ranks: int, wire: float) -> FloatArray:
        """Seconds of shards in each phase on each of the ``ranks`` that share their rows ``[S, 4]``.

        Args:
            table: table of each shard ``[S]``.
            dim: its columns ``[S]``.
            ranks: over how many ranks its rows are spread.
            wire: bytes per second at which a rank gets rid of its pooled vectors.
        """
        settings, traffic, features = self.settings, self._traffic, self.tables.features[table]
        batch = traffic.samples
        exchange = batch * dim * features * (settings.forward_bytes + settings.backward_bytes)
        indices = traffic.lookups[table] * settings.index_bytes / ranks + batch * features * settings.length_bytes
        forward_s, update_s = self._kernel_s(traffic, table, dim, ranks, self.storage or self._fused)
        return np.stack([forward_s, update_s, exchange / wire, indices / self.rates.all_to_all], axis=1)

    def _kernel_s(
        self, traffic: TableTraffic, table: IntArray, dim: IntArray, ranks: int, storage: Storage
    ) -> tuple[FloatArray, FloatArray]:
        """Seconds of lookups and of updates of shards on each of the ``ranks`` that share their rows ``[S]``.

        Rows that are not in device memory go over PCIe, both ways at once; those from SSDs are read and written there.
        """
        settings, tables = self.settings, self.tables
        found = split_rows(tables, settings, storage, table, traffic)
        row, pooled = dim * tables.element_bytes[table], traffic.samples * dim * tables.features[table]
        lookups = traffic.lookups[table] / ranks
        forward = (
            found.lookups / ranks * row
            + lookups * settings.index_bytes
            + pooled * settings.lookup_bytes(summed=ranks > 1)
        )
        state = TABLE_STATE[settings.optimizer.tables]
        beside, here = STATE_BYTES * state.per_weight * dim, storage.kernel[table] == FUSED
        kept = traffic.distinct[table] / ranks
        update = 2 * (found.distinct / ranks * row + kept * (STATE_BYTES * state.per_row + beside * here))
        rows = np.full(len(table), tables.rows.sum() / settings.world_size)
        update = (
            update
            + pooled * settings.gradient_bytes(gathered=ranks > 1)
            + sort_bytes(lookups, rows, settings.index_bytes)
        )
        looked_up, updated = found.host_lookups / ranks * row, found.host_distinct / ranks * row + kept * beside * ~here
        fetched = found.fetched / ranks
        on_ssd = fetched * found.on_ssd * (np.maximum(row, SSD_READ_BYTES) + row)
        rates = self.rates
        forward_s = (forward + 2 * fetched * row) / rates.embedding + (looked_up + fetched * row) / rates.host
        return forward_s + on_ssd / rates.ssd, update / rates.embedding + updated / rates.host


def rank_loads_s(plan: Plan, costs: BandwidthCosts) -> FloatArray:
    """Seconds of each rank in each phase under a plan ``[P, K]``."""
    columns, nodes, local = plan.columns, plan.nodes, plan.local_world_size
    by_rank = _summed(columns.rank, costs.column_shard_s(columns.table, columns.dim), plan.world_size)
    in_node = costs.node_shard_s(nodes.table, nodes.dim)[:, None] * costs.block_weights(nodes.table, local)
    places = [_summed(nodes.node, in_node[:, place], plan.node_count) for place in range(local)]
    by_place = np.stack(places, axis=1).reshape(-1, by_rank.shape[1])[: plan.world_size]
    everywhere, row_wise_s = costs.data_parallel_s()[plan.data_parallel].sum(axis=0), costs.row_wise_s()
    for some in np.array_split(plan.row_wise, -(-len(plan.row_wise) // _AT_A_TIME)) if len(plan.row_wise) else []:
        everywhere = everywhere + np.einsum("nk,npk->pk", row_wise_s[some], costs.block_weights(some, plan.world_size))
    return np.asarray(by_rank + by_place + everywhere)


def _summed(place: IntArray, seconds: FloatArray, count: int) -> FloatArray:
    """Add ``seconds [S, K]`` by place ``[count, K]``."""
    return np.stack([np.bincount(place, weights=phase, minlength=count) for phase in seconds.T], axis=1)
