"""Rows that are not in device memory: which ones kernels reach over PCIe, and which ones a cache brings in first.

FBGEMM's cache (``prefetch`` of split_table_batched_embeddings_ops_training.py): the indices of a batch are made unique
and looked up in the cache; rows that are missing take the slots of rows unused for longest, which are written back;
lookups and updates then find them in the cache. Rows for which no slot is left are read and written in host memory by
the kernels themselves. Before SSDs they have room beside the cache instead (fbgemm_gpu/tbe/ssd/training.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.operators import Amount, CacheFill, FloatArray, HostTraffic
from simulator.program import IntArray
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.storage import CACHE_WAYS, CACHED, KEY_VALUE, UVM, Storage
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.traffic import TableTraffic, fetched_rows, sort_bytes, table_traffic

PROBED_SLOT_BYTES = 8
"""Bytes read for each slot of a set to compare the row in it (FBGEMM ``lxu_cache_state``, int64)."""

SSD_READ_BYTES = 4096
"""A row on an SSD is read with the rest of its page (NVMe's usual logical block)."""

FILL_LAUNCHES = 8
"""Kernels of a cache fill: linearise; sort, count runs, gather (unique); find missing; sort by set; insert; look up
(FBGEMM lru_cache_populate.cu, recalled)."""


@dataclass(frozen=True, slots=True)
class RowSplit:
    """Sources of the rows of shards in a batch, rows of whole tables ``[S]``.

    Attributes:
        lookups: lookups served from device memory.
        distinct: distinct rows there.
        host_lookups: lookups served from host memory.
        host_distinct: distinct rows there.
        fetched: distinct rows that the cache brings in, each instead of another one.
        on_ssd: whether missing rows come from SSDs, 0 or 1.
        cached: lookups that go through a cache.
    """

    lookups: FloatArray
    distinct: FloatArray
    host_lookups: FloatArray
    host_distinct: FloatArray
    fetched: FloatArray
    on_ssd: IntArray
    cached: FloatArray


def split_rows(
    tables: Tables, settings: DlrmSettings, storage: Storage, table: IntArray, traffic: TableTraffic
) -> RowSplit:
    """Sources of the rows of a batch, by the kernel of each shard's table ``[S]``."""
    kernel, lookups, distinct = storage.kernel[table], traffic.lookups[table], traffic.distinct[table]
    slots = storage.slots(table, tables.rows[table].astype(np.float64))
    cached_here = np.isin(kernel, (CACHED, KEY_VALUE))
    missing = np.zeros(len(table))
    missing[cached_here] = missed_rows(tables, settings, table[cached_here], traffic, slots[cached_here])
    passed_by = np.minimum(missing, np.maximum(distinct - slots, 0.0))
    host = np.select([kernel == UVM, kernel == CACHED], [distinct, passed_by], 0.0)
    host_lookups = np.divide(lookups * host, distinct, out=np.zeros_like(host), where=distinct > 0.0)
    fetched = np.select([kernel == CACHED, kernel == KEY_VALUE], [missing - passed_by, missing], 0.0)
    on_ssd = (kernel == KEY_VALUE).astype(np.int64)
    cached = np.where(cached_here, lookups, 0.0)
    return RowSplit(lookups - host_lookups, distinct - host, host_lookups, host, fetched, on_ssd, cached)


def missed_rows(
    tables: Tables, settings: DlrmSettings, table: IntArray, traffic: TableTraffic, slots: FloatArray
) -> FloatArray:
    """Distinct rows of a batch that caches of ``slots [S]`` rows lack ``[S]``."""
    distinct = traffic.distinct[table]
    if settings.cache_hit_rate is not None:
        return np.asarray(distinct * (1.0 - settings.cache_hit_rate))
    return np.minimum(fetched_rows(tables, settings, table, traffic.samples, slots), distinct)


@dataclass(frozen=True, slots=True)
class HitRates:
    """Hit rates of the caches of all tables that have one in a batch: among its distinct rows, and among its lookups.

    A row that is missing is fetched once, whatever the number of its lookups.
    """

    distinct_rows: float
    lookups: float


def hit_rates(tables: Tables, settings: DlrmSettings, storage: Storage, table: IntArray) -> HitRates | None:
    """Hit rates of the given tables ``[S]``; None where none of them has a cache."""
    traffic = table_traffic(tables, float(settings.global_batch_size), settings)
    behind = table[np.isin(storage.kernel[table], (CACHED, KEY_VALUE))]
    slots = storage.slots(behind, tables.rows[behind].astype(np.float64))
    lookups, distinct = float(traffic.lookups[behind].sum()), float(traffic.distinct[behind].sum())
    if distinct == 0.0:
        return None
    missing = float(missed_rows(tables, settings, behind, traffic, slots).sum())
    return HitRates(1.0 - missing / distinct, 1.0 - missing / lookups)


@dataclass(frozen=True, slots=True)
class RankRows:
    """The same summed over the shards of ranks, for a fill ``[P]``: see `cache_fill`."""

    lookups: FloatArray
    distinct: FloatArray
    rows: FloatArray
    fetched_bytes: FloatArray
    ssd_read_bytes: FloatArray
    ssd_write_bytes: FloatArray


def cache_fill(ranks: RankRows, index_bytes: int) -> CacheFill | None:
    """The kernels that bring a batch's rows into the caches of ranks; None where no rank has a cache.

    Args:
        ranks: lookups and distinct rows of cached tables, rows of these tables, and what is fetched.
    """
    if not np.any(ranks.lookups > 0.0):
        return None
    linear = 2.0 * ranks.lookups * index_bytes
    probes = (ranks.lookups + ranks.distinct) * CACHE_WAYS * PROBED_SLOT_BYTES
    fetched = amount(ranks.fetched_bytes)
    traffic = HostTraffic(fetched, fetched, amount(ranks.ssd_read_bytes), amount(ranks.ssd_write_bytes))
    return CacheFill(
        sort_bytes=amount(linear + sort_bytes(ranks.lookups, ranks.rows, index_bytes)),
        probe_bytes=amount(probes),
        row_bytes=amount(2.0 * ranks.fetched_bytes),
        host=traffic,
    )


def amount(values: Amount) -> Amount:
    """A scalar where all ranks have the same, else ``[P]``."""
    of_rank = np.atleast_1d(values)
    return float(of_rank[0]) if of_rank.size and np.all(of_rank == of_rank[0]) else of_rank
