"""Kernels of embedding tables: one lookup and one update for all shards of a kind on a rank, and a cache fill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from simulator.operators import Amount, CacheFill, EmbeddingLookup, EmbeddingUpdate, FloatArray, HostTraffic, Misses
from simulator.program import IntArray
from workloads.dlrm.model.batch_contents import batch_deviation
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.storage import FUSED, Storage
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.cache import SSD_READ_BYTES, RankRows, RowSplit, amount, cache_fill, split_rows
from workloads.dlrm.rows.retention import CACHE_BYTES
from workloads.dlrm.rows.traffic import (
    TableTraffic,
    missed_shares,
    popularity_of,
    sectors,
    sort_bytes,
    table_traffic,
)
from workloads.graph.optimizers import STATE_BYTES, TABLE_STATE

__all__ = ["KernelShards", "Kernels", "Summed", "amount", "dense_gradient", "kernels"]


Summed: TypeAlias = Callable[[FloatArray], FloatArray]
"""Adds amounts of shards ``[S]`` up on the ranks ``[P]``."""


@dataclass(frozen=True, slots=True)
class KernelShards:
    """Shards of one kind: their tables and columns ``[S]``, and how amounts per shard add up on ranks.

    Attributes:
        table: table of each shard.
        dim: its columns.
        samples: number of samples whose lookups it serves.
        parts: ranks that share its rows.
        lookups: sums amounts that follow the lookups, which popular rows draw to their ranks.
        distinct: sums amounts that follow the distinct rows.
        rows: sums amounts that follow the rows.
        full: sums amounts that each holder has in full (features).
        outputs: sums pooled vectors, which a holder has in full, too, unless it serves only some of the lookups.
    """

    table: IntArray
    dim: IntArray
    samples: float
    parts: int
    lookups: Summed
    distinct: Summed
    rows: Summed
    full: Summed
    outputs: Summed | None = None


@dataclass(frozen=True, slots=True)
class Kernels:
    """Forward and backward kernel of a group, and the kernel that fills its caches; None where it has none."""

    lookup: EmbeddingLookup
    update: EmbeddingUpdate
    fill: CacheFill | None


def kernels(tables: Tables, settings: DlrmSettings, shards: KernelShards, storage: Storage) -> Kernels:
    """Kernels of a group: bytes from `workloads.dlrm.rows.traffic`, hit rates from `workloads.dlrm.rows.cache`."""
    traffic = table_traffic(tables, shards.samples, settings)
    made = _Maker(tables, settings, shards, storage, traffic)
    return Kernels(made.lookup(), made.update(), made.fill())


def dense_gradient(update: EmbeddingUpdate, weight_bytes: Amount) -> EmbeddingUpdate:
    """The update of copied rows: a dense gradient is zeroed and written; the dense optimizer updates the weights."""
    return replace(update, weight_bytes=2.0 * weight_bytes, state_bytes=0.0, padding_bytes=0.0)


@dataclass(slots=True)
class _Maker:
    """Common data of the kernels of a group: its shards, and where their rows are."""

    tables: Tables
    settings: DlrmSettings
    shards: KernelShards
    storage: Storage
    traffic: TableTraffic
    rows: RowSplit = field(init=False)
    row_bytes: IntArray = field(init=False)
    lookups: FloatArray = field(init=False)
    features: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        tables, shards = self.tables, self.shards
        self.rows = split_rows(tables, self.settings, self.storage, shards.table, self.traffic)
        self.row_bytes = shards.dim * tables.element_bytes[shards.table]
        self.lookups = shards.lookups(self.traffic.lookups[shards.table])
        self.features = shards.full(tables.features[shards.table].astype(np.float64))

    def lookup(self) -> EmbeddingLookup:
        shards, settings = self.shards, self.settings
        host = shards.lookups(self.rows.host_lookups * self.row_bytes)
        indices = self.lookups * settings.index_bytes + shards.samples * self.features * settings.length_bytes
        return EmbeddingLookup(
            lookups=amount(self.lookups),
            row_bytes=amount(shards.lookups(self.rows.lookups * self.row_bytes)),
            output_bytes=amount(self._vectors() * settings.lookup_bytes(summed=self._summed)),
            index_bytes=amount(indices),
            tables=amount(self.features),
            missed=self._misses(),
            deviation=self._deviation(),
            host=HostTraffic(amount(host)) if host.any() else None,
        )

    def update(self) -> EmbeddingUpdate:
        shards, settings, table = self.shards, self.settings, self.shards.table
        distinct = self.traffic.distinct[table]
        element = settings.gradient_bytes(gathered=self._summed)
        vectors = self._vectors() * element
        gradient_reads = shards.lookups(self.traffic.lookups[table] * shards.dim) * element
        gradients = np.minimum(vectors, gradient_reads)
        state = TABLE_STATE[settings.optimizer.tables]
        beside = STATE_BYTES * state.per_weight * shards.dim  # state of a row that is kept where its weights are
        here = self.storage.kernel[table] == FUSED
        host = shards.distinct(self.rows.host_distinct * self.row_bytes + distinct * beside * ~here)
        kept = (STATE_BYTES * state.per_row + beside * here).astype(np.float64)
        whole = self.rows.distinct * (sectors(self.row_bytes) - self.row_bytes) + distinct * (sectors(kept) - kept)
        held = shards.rows(self.tables.rows[table].astype(np.float64))
        return EmbeddingUpdate(
            lookups=amount(self.lookups),
            unique_rows=amount(shards.distinct(distinct)),
            gradient_bytes=amount(gradients),
            weight_bytes=amount(2.0 * shards.distinct(self.rows.distinct * self.row_bytes)),
            state_bytes=amount(2.0 * shards.distinct(distinct * kept)),
            sort_bytes=amount(sort_bytes(self.lookups, held, settings.index_bytes)),
            tables=amount(self.features),
            repeated_gradient_bytes=amount(gradient_reads - gradients),
            gradient_block_bytes=amount(vectors / np.maximum(self.features, 1.0)),
            padding_bytes=amount(2.0 * shards.distinct(whole)),
            deviation=self._deviation(),
            host=HostTraffic(amount(host), amount(host)) if host.any() else None,
            variant=settings.embedding_update,
            collisions=self._collisions() if settings.embedding_update == "atomic" else 0.0,
        )

    def _collisions(self) -> Amount:
        """Probability that two lookups of a table are of one row, mean over the lookups of each rank."""
        tables = self.shards.table
        known = {table: popularity_of(self.tables, self.settings, table).collision for table in set(tables.tolist())}
        of_table = np.array([known[table] for table in tables.tolist()])
        met = self.shards.lookups(self.traffic.lookups[tables] * of_table)
        return amount(np.divide(met, self.lookups, out=np.zeros_like(met), where=self.lookups > 0.0))

    def fill(self) -> CacheFill | None:
        rows, shards, table = self.rows, self.shards, self.shards.table
        cached = (rows.cached > 0.0).astype(np.float64)
        from_ssd = rows.fetched * rows.on_ssd
        ranks = RankRows(
            lookups=shards.lookups(rows.cached),
            distinct=shards.distinct(self.traffic.distinct[table] * cached),
            rows=shards.rows(self.tables.rows[table] * cached),
            fetched_bytes=shards.distinct(rows.fetched * self.row_bytes),
            ssd_read_bytes=shards.distinct(from_ssd * np.maximum(self.row_bytes, SSD_READ_BYTES)),
            ssd_write_bytes=shards.distinct(from_ssd * self.row_bytes),
        )
        return cache_fill(ranks, self.settings.index_bytes)

    @property
    def _summed(self) -> bool:
        """Whether vectors are partial sums of several ranks; vectors of sequences are never summed."""
        return self.shards.parts > 1 and not self.tables.sequences

    def _vectors(self) -> FloatArray:
        """Elements of the vectors on each rank ``[P]``: pooled ones, or one for each lookup of a sequence."""
        shards = self.shards
        if self.tables.sequences:
            return shards.lookups(self.traffic.lookups[shards.table] * shards.dim)
        outputs = shards.outputs or shards.full
        return outputs(shards.samples * (shards.dim * self.tables.features[shards.table]).astype(np.float64))

    def _misses(self) -> Misses:
        """Rows that come from device memory behind caches of several sizes, in whole sectors."""
        shards = self.shards
        size = sectors(self.row_bytes)
        shares = missed_shares(self.tables, self.settings, shards.table, size, shards.samples, shards.parts)
        found = np.stack([shards.lookups(self.rows.lookups * size * share) for share in shares])
        return Misses(CACHE_BYTES, found[:, 0] if np.all(found == found[:, :1]) else found)

    def _deviation(self) -> Amount:
        """Standard deviation of the lookups on each rank over their mean."""
        if not self.tables.pooling:
            return 0.0
        variance = batch_deviation(self.tables, self.shards.samples)[self.shards.table] ** 2
        of_rank = np.sqrt(self.shards.lookups(variance))
        return amount(np.divide(of_rank, self.lookups, out=np.zeros_like(of_rank), where=self.lookups > 0.0))
