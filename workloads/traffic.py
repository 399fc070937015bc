"""Embedding traffic of tables and shards: lookups, bytes moved, rows updated. Amounts per iteration, no times.

Byte counts follow FBGEMM (bench/tbe/split_table_batched_embeddings_benchmark.py and the backward kernels):

- forward: each looked-up row is read, each pooled vector written, indices and offsets read;
- backward: indices are sorted (radix sort of key and 4-byte value), pooled gradients read per lookup, each distinct
  row's weights and optimizer state read and written once.

All looked-up rows count as read from memory in the forward pass, also when a batch repeats them, because the bandwidth
that the benchmark reports, hence the published 1300 GB/s, is defined that way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.operators import BYTES_PER_ELEMENT, FloatArray
from simulator.program import IntArray
from workloads.reuse import distinct_rows
from workloads.settings import STATE_BYTES, DlrmSettings, state_elements
from workloads.tables import Tables

RADIX_BITS = 8
"""Bits that one pass of a radix sort orders (CUB's default digit)."""

SORT_VALUE_BYTES = 4
"""Bytes carried beside each sorted index (FBGEMM transpose_embedding_input: int32 bag numbers)."""


@dataclass(frozen=True, slots=True)
class TableTraffic:
    """What whole tables move in one batch; all arrays ``[N]``.

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
    lookups = samples * tables.pooling_factor
    return TableTraffic(
        samples, lookups, distinct_rows(tables.rows.astype(np.float64), lookups, samples, settings.reuse)
    )


def sort_bytes(lookups: FloatArray, rows: FloatArray, index_bytes: int) -> FloatArray:
    """Traffic of sorting the indices of a rank ``[P]``: each pass reads and writes keys and values.

    Args:
        lookups: indices on the rank ``[P]``.
        rows: rows of all tables on the rank ``[P]``; the keys have ``log2(rows)`` bits.
        index_bytes: size of a key.
    """
    passes = np.ceil(np.log2(np.maximum(rows, 2.0)) / RADIX_BITS)
    return lookups * passes * 2 * (index_bytes + SORT_VALUE_BYTES)


OVERLAP_COST = 0.25
"""Seconds that a second of input exchange costs when it runs beside the other communication (assumed: on ZionEX it
takes a quarter to a third of the network cards from an all_reduce that would use nearly all of them)."""


@dataclass(frozen=True, slots=True)
class BandwidthCosts:
    """Shard costs from three bandwidths (a `workloads.planning.ShardCosts`).

    Phases of a column shard: lookup, update, output exchange (pooled vectors and their gradients) and input exchange
    (indices), each bytes over bandwidth. An input exchange that the pipeline runs beside the rest counts by
    `OVERLAP_COST`, unless it lasts longer than the rest.

    Attributes:
        tables: the tables.
        settings: the job.
        embedding_bytes_per_s: what embedding kernels achieve on a rank's memory.
        all_to_all_bytes_per_s: algbw of all_to_all over all ranks.
        all_reduce_bytes_per_s: algbw of all_reduce over all ranks.
    """

    tables: Tables
    settings: DlrmSettings
    embedding_bytes_per_s: float
    all_to_all_bytes_per_s: float
    all_reduce_bytes_per_s: float

    def column_shard_s(self, table: IntArray, dim: IntArray) -> FloatArray:
        """Seconds per shard and phase ``[S, 4]``."""
        seconds = self._phases_s(table, dim)
        seconds[:, -1] *= self._input_weight()
        return seconds

    def _input_weight(self) -> float:
        """What a second of input exchange adds to an iteration, seconds."""
        if self.settings.pipeline == "none":
            return 1.0
        mean = self._phases_s(np.arange(len(self.tables)), self.tables.dim).sum(axis=0)
        return 1.0 if mean[-1] > mean[:-1].sum() else OVERLAP_COST

    def _phases_s(self, table: IntArray, dim: IntArray) -> FloatArray:
        """Seconds of a shard in each phase ``[S, 4]``."""
        settings, batch = self.settings, float(self.settings.global_batch_size)
        traffic = table_traffic(self.tables, batch, settings)
        exchange = batch * dim * (settings.forward_bytes + settings.backward_bytes)
        indices = traffic.lookups[table] * settings.index_bytes + batch * settings.length_bytes
        forward, update = self._embedding_bytes(traffic, table, dim)
        memory, wire = self.embedding_bytes_per_s, self.all_to_all_bytes_per_s
        return np.stack([forward / memory, update / memory, exchange / wire, indices / wire], axis=1)

    def row_wise_s(self) -> FloatArray:
        """Seconds per table on every rank ``[N]``: a share of lookups and updates, reduce_scatter and all_gather.

        Both move half of what an all_reduce of the same buffer moves, hence twice its algbw.
        """
        tables, settings, batch = self.tables, self.settings, float(self.settings.global_batch_size)
        everything = np.arange(len(tables))
        traffic = table_traffic(tables, batch, settings)
        pooled = batch * tables.dim * (settings.forward_bytes + settings.backward_bytes)
        indices = traffic.lookups * settings.index_bytes / settings.world_size + batch * settings.length_bytes
        shared = (sum(self._embedding_bytes(traffic, everything, tables.dim)) - pooled) / settings.world_size + pooled
        exchange = pooled / (2 * self.all_reduce_bytes_per_s) + indices / self.all_to_all_bytes_per_s
        return np.asarray(shared / self.embedding_bytes_per_s + exchange)

    def data_parallel_s(self) -> FloatArray:
        """Seconds per table on every rank ``[N]``: local lookups, all_reduce of the whole gradient, dense update."""
        tables, settings = self.tables, self.settings
        everything = np.arange(len(tables))
        traffic = table_traffic(tables, float(settings.local_batch_size), settings)
        summed = tables.rows * tables.dim * float(BYTES_PER_ELEMENT[settings.precision.all_reduce])
        local = sum(self._embedding_bytes(traffic, everything, tables.dim)) + 3.0 * tables.weight_bytes
        return local / self.embedding_bytes_per_s + summed / self.all_reduce_bytes_per_s

    def _embedding_bytes(self, traffic: TableTraffic, table: IntArray, dim: IntArray) -> tuple[FloatArray, FloatArray]:
        """Bytes of the lookups and of the updates of shards ``[S]``."""
        settings, element = self.settings, self.tables.element_bytes[table]
        lookups, distinct = traffic.lookups[table], traffic.distinct[table]
        forward = lookups * (dim * element + settings.index_bytes) + traffic.samples * dim * settings.forward_bytes
        state = state_elements(settings.optimizer.tables, np.ones_like(dim), dim) * STATE_BYTES
        update = 2 * distinct * (dim * element + state) + traffic.samples * dim * settings.backward_bytes
        rows = np.full(len(table), self.tables.rows.sum() / settings.world_size)
        return forward, update + sort_bytes(lookups, rows, settings.index_bytes)
