"""Embedding traffic of tables and shards: lookups, bytes moved, rows updated. Amounts per iteration, no times.

Byte counts follow FBGEMM (bench/tbe/split_table_batched_embeddings_benchmark.py and the backward kernels):

- forward: each looked-up row is read, each pooled vector written, indices and offsets read;
- backward: indices are sorted (radix sort of key and 4-byte value), pooled gradients read per lookup, each distinct
  row's weights and optimizer state read and written once.

How many of the rows of the forward pass a cache serves follows from their popularity: the lookups of one table follow
each other (FBGEMM's thread blocks are in the order of the tables), so that a cache begins each table without its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.laws.index_laws import Law, make_law, salt_of
from workloads.dlrm.laws.popularity import Popularity
from workloads.dlrm.model.batch_contents import batch_lookups
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.retention import CACHE_BYTES

RADIX_BITS = 8
"""Bits that one pass of a radix sort orders (CUB's default digit)."""

SORT_VALUE_BYTES = 4
"""Bytes carried beside each sorted index (FBGEMM transpose_embedding_input: int32 bag numbers)."""

SECTOR_BYTES = 32
"""Smallest transfer of a GPU's caches and memory, bytes (CUDA C++ Programming Guide: transactions of 32 bytes)."""


@dataclass(frozen=True, slots=True)
class TableTraffic:
    """Traffic of whole tables in one batch; all arrays ``[N]``.

    Attributes:
        samples: the batch.
        lookups: rows looked up.
        distinct: distinct rows among them.
    """

    samples: float
    lookups: FloatArray
    distinct: FloatArray


def table_traffic(tables: Tables, samples: float, settings: DlrmSettings) -> TableTraffic:
    """Traffic of a batch of ``samples`` (global for sharded tables, local for copied ones)."""
    part = samples / settings.global_batch_size
    lookups = part * batch_lookups(tables, settings).sum(axis=1)
    distinct = _distinct_of_tables(tables, lookups, samples, settings)
    return TableTraffic(samples, lookups * asked_share(tables, settings), distinct)


def asked_share(tables: Tables, settings: DlrmSettings) -> FloatArray:
    """Share of a rank's lookups that it asks the owners for ``[N]``: 1, or its distinct rows where it asks once."""
    if not settings.index_dedup:
        return np.ones(len(tables))
    lookups = batch_lookups(tables, settings).sum(axis=1) / settings.world_size
    distinct = _distinct_of_tables(tables, lookups, settings.global_batch_size / settings.world_size, settings)
    share = np.divide(distinct, lookups, out=np.ones_like(lookups), where=lookups > 0.0)
    return np.asarray(np.minimum(share, 1.0))  # the law gives more rows than lookups below one lookup


def _distinct_of_tables(tables: Tables, lookups: FloatArray, samples: float, settings: DlrmSettings) -> FloatArray:
    """Distinct rows among ``lookups [N]`` of ``samples`` samples ``[N]``."""
    laws = laws_of(tables, settings)
    if len(set(laws)) == 1:
        return _distinct(laws[0], tables.rows, lookups, samples, settings)
    distinct = np.zeros(len(tables))
    for law in set(laws):
        own = np.array([other is law for other in laws])
        distinct[own] = _distinct(law, tables.rows[own], lookups[own], samples, settings)
    return distinct


def laws_of(tables: Tables, settings: DlrmSettings) -> list[Law]:
    """The law of each table ``[N]``."""
    if not tables.indices:
        return [settings.indices] * len(tables)
    return [settings.indices if law is None else make_law(law) for law in tables.indices]


def popularity_of(tables: Tables, settings: DlrmSettings, table: int) -> Popularity:
    """Popularity of the rows of a table.

    Raises:
        InputError: a file of indices looks up rows that the table lacks.
    """
    own = tables.indices[table] if tables.indices else None
    law = settings.indices if own is None else make_law(own)
    lookups = settings.global_batch_size * float(tables.pooling_factor[table] * tables.features[table])
    return law.popularity(int(tables.rows[table]), lookups, settings.global_batch_size, salt_of(tables.names[table]))


def missed_shares(
    tables: Tables, settings: DlrmSettings, table: IntArray, row_bytes: FloatArray, samples: float, parts: int
) -> FloatArray:
    """Share of each shard's lookups that a cache of each of `CACHE_BYTES` does not serve ``[G, S]``.

    Args:
        table: table of each shard ``[S]``.
        row_bytes: room that one of its rows takes in a cache ``[S]``.
        samples: number of samples whose lookups it serves.
        parts: ranks over which its rows are spread; each sees that part of the lookups and of the rows.
    """
    if settings.index_dedup:  # a rank asks for a row once, and other ranks much later
        return np.ones((len(CACHE_BYTES), len(table)))
    sizes, size = np.unique(row_bytes, return_inverse=True)
    kinds, kind = np.unique(table * len(sizes) + size, return_inverse=True)
    found, per_sample = np.ones((len(CACHE_BYTES), len(kinds))), tables.lookups_per_sample
    laws, batch = laws_of(tables, settings) if tables.indices else (), settings.global_batch_size
    for place, pair in enumerate(kinds.tolist()):
        number, of_size = divmod(pair, len(sizes))
        law, lookups = laws[number] if laws else settings.indices, batch * float(per_sample[number])
        curve = law, int(tables.rows[number]), lookups, batch, samples
        found[:, place] = _missed_at(*curve, float(sizes[of_size]), parts)
    return found[:, kind]


def fetched_rows(
    tables: Tables, settings: DlrmSettings, table: IntArray, samples: float, slots: FloatArray
) -> FloatArray:
    """Distinct rows of a batch that LRU caches in front of tables lack, having served such batches for long ``[S]``.

    Args:
        table: table of each cache ``[S]``.
        samples: the batch.
        slots: rows that each cache holds ``[S]``.
    """
    found, per_sample = np.zeros(len(table)), tables.lookups_per_sample
    laws = laws_of(tables, settings) if tables.indices else ()
    for cache, (number, rows) in enumerate(zip(table.tolist(), slots.tolist(), strict=True)):
        law = laws[number] if laws else settings.indices
        size, lookups = int(tables.rows[number]), float(per_sample[number])
        found[cache] = _fetched(
            law, size, settings.global_batch_size * lookups, settings.global_batch_size, samples, rows
        )
    return found


def sectors(size_bytes: FloatArray | IntArray) -> FloatArray:
    """Bytes that move when ``size_bytes [...]`` somewhere in memory are read or written: whole sectors."""
    return np.asarray(np.ceil(size_bytes / SECTOR_BYTES) * SECTOR_BYTES)


def sort_bytes(lookups: FloatArray, rows: FloatArray, index_bytes: int) -> FloatArray:
    """Traffic of sorting the indices of a rank ``[P]``: each pass reads and writes keys and values.

    Args:
        lookups: indices on the rank ``[P]``.
        rows: rows of all tables on the rank ``[P]``; the keys have ``log2(rows)`` bits.
        index_bytes: size of a key.
    """
    passes = np.ceil(np.log2(np.maximum(rows, 2.0)) / RADIX_BITS)
    return lookups * passes * 2 * (index_bytes + SORT_VALUE_BYTES)


def _distinct(law: Law, rows: IntArray, lookups: FloatArray, samples: float, settings: DlrmSettings) -> FloatArray:
    size = rows.astype(np.float64)
    return _known(law, size.tobytes(), lookups.tobytes(), samples, float(settings.global_batch_size)).copy()


@lru_cache(maxsize=16384)
def _missed(law: Law, rows: int, lookups: float, batch: float, samples: float) -> tuple[FloatArray, FloatArray]:
    return law.popularity(rows, lookups, batch).missed(lookups * samples / batch)


@lru_cache(maxsize=65536)
def _missed_at(
    law: Law, rows: int, lookups: float, batch: float, samples: float, row_bytes: float, parts: int
) -> FloatArray:
    """Shares that caches of `CACHE_BYTES` do not serve ``[G]``; models have many tables of one kind."""
    held, missing = _missed(law, rows, lookups, batch, samples)
    return np.asarray(np.interp(CACHE_BYTES / row_bytes * parts, held, missing))


@lru_cache(maxsize=16384)
def _fetched(law: Law, rows: int, lookups: float, batch: float, samples: float, slots: float) -> float:
    return float(law.popularity(rows, lookups, batch).fetched(slots, lookups * samples / batch))


@lru_cache(maxsize=256)
def _known(law: Law, rows: bytes, lookups: bytes, samples: float, batch: float) -> FloatArray:
    """Plans are compared by the thousand, over the same tables."""
    return law.distinct(np.frombuffer(rows), np.frombuffer(lookups), samples, batch)
