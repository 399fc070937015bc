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

from simulator.operators import FloatArray
from workloads.reuse import distinct_rows
from workloads.settings import DlrmSettings
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
    lookups = samples * tables.lookups_per_sample
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
