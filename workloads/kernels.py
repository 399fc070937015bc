"""Kernels of embedding tables: one lookup and one update for all shards of a kind on a rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simulator.operators import Amount, EmbeddingLookup, EmbeddingUpdate, FloatArray
from simulator.program import IntArray
from workloads.settings import STATE_BYTES, DlrmSettings, state_elements
from workloads.tables import Tables
from workloads.traffic import sort_bytes, table_traffic


@dataclass(frozen=True, slots=True)
class KernelShards:
    """Shards of one kind: their tables and columns ``[S]``, and how amounts per shard add up on ranks.

    ``shared`` sums what is divided over ranks (lookups, rows), ``full`` what each holder has in full (outputs).
    """

    table: IntArray
    dim: IntArray
    samples: float
    shared: Callable[[FloatArray], FloatArray]
    full: Callable[[FloatArray], FloatArray]


def amount(values: FloatArray) -> Amount:
    """A scalar where all ranks have the same, else ``[P]``."""
    return float(values[0]) if values.size and np.all(values == values[0]) else values


def kernels(tables: Tables, settings: DlrmSettings, shards: KernelShards) -> tuple[EmbeddingLookup, EmbeddingUpdate]:
    """Forward and backward kernel of a group; byte counts as in `workloads.traffic`."""
    table, dim = shards.table, shards.dim
    traffic = table_traffic(tables, shards.samples, settings)
    per_lookup, distinct = traffic.lookups[table], traffic.distinct[table]
    weights = dim * tables.element_bytes[table]
    state = state_elements(settings.optimizer.tables, np.ones_like(dim), dim) * STATE_BYTES
    lookups, features = shards.shared(per_lookup), shards.full(tables.features[table].astype(np.float64))
    pooled = shards.full(shards.samples * (dim * tables.features[table]).astype(np.float64))
    gradient_reads = shards.shared(per_lookup * dim) * settings.backward_bytes
    gradients = np.minimum(pooled * settings.backward_bytes, gradient_reads)
    lookup = EmbeddingLookup(
        lookups=amount(lookups),
        row_bytes=amount(shards.shared(per_lookup * weights)),
        output_bytes=amount(pooled * settings.forward_bytes),
        index_bytes=amount(lookups * settings.index_bytes + shards.samples * features * settings.length_bytes),
        tables=amount(features),
    )
    update = EmbeddingUpdate(
        lookups=amount(lookups),
        unique_rows=amount(shards.shared(distinct)),
        gradient_bytes=amount(gradients),
        weight_bytes=amount(2.0 * shards.shared(distinct * weights)),
        state_bytes=amount(2.0 * shards.shared(distinct * state)),
        sort_bytes=amount(
            sort_bytes(lookups, shards.shared(tables.rows[table].astype(np.float64)), settings.index_bytes)
        ),
        tables=amount(features),
        repeated_gradient_bytes=amount(gradient_reads - gradients),
        gradient_block_bytes=amount(pooled * settings.backward_bytes / np.maximum(features, 1.0)),
    )
    return lookup, update
