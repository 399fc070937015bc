"""Kernels of embedding tables: one lookup and one update for all shards of a kind on a rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from simulator.operators import Amount, EmbeddingLookup, EmbeddingUpdate, FloatArray, Misses
from simulator.program import IntArray
from workloads.batch_contents import batch_deviation
from workloads.settings import STATE_BYTES, DlrmSettings, state_elements
from workloads.tables import Tables
from workloads.traffic import CACHE_BYTES, missed_shares, sectors, sort_bytes, table_traffic

Summed: TypeAlias = Callable[[FloatArray], FloatArray]
"""Adds amounts of shards ``[S]`` up on the ranks ``[P]``."""


@dataclass(frozen=True, slots=True)
class KernelShards:
    """Shards of one kind: their tables and columns ``[S]``, and how amounts per shard add up on ranks.

    Attributes:
        table: table of each shard.
        dim: its columns.
        samples: whose lookups it serves.
        parts: ranks that share its rows.
        lookups: sums what follows the lookups, which popular rows draw to their ranks.
        distinct: sums what follows the distinct rows.
        rows: sums what follows the rows.
        full: sums what each holder has in full (outputs).
    """

    table: IntArray
    dim: IntArray
    samples: float
    parts: int
    lookups: Summed
    distinct: Summed
    rows: Summed
    full: Summed


def amount(values: FloatArray) -> Amount:
    """A scalar where all ranks have the same, else ``[P]``."""
    return float(values[0]) if values.size and np.all(values == values[0]) else values


def kernels(tables: Tables, settings: DlrmSettings, shards: KernelShards) -> tuple[EmbeddingLookup, EmbeddingUpdate]:
    """Forward and backward kernel of a group; byte counts as in `workloads.traffic`."""
    table, dim = shards.table, shards.dim
    traffic = table_traffic(tables, shards.samples, settings)
    per_lookup, distinct = traffic.lookups[table], traffic.distinct[table]
    weights = (dim * tables.element_bytes[table]).astype(np.float64)
    state = (state_elements(settings.optimizer.tables, np.ones_like(dim), dim) * STATE_BYTES).astype(np.float64)
    lookups, features = shards.lookups(per_lookup), shards.full(tables.features[table].astype(np.float64))
    pooled = shards.full(shards.samples * (dim * tables.features[table]).astype(np.float64))
    gradient_reads = shards.lookups(per_lookup * dim) * settings.backward_bytes
    gradients = np.minimum(pooled * settings.backward_bytes, gradient_reads)
    deviation = _deviation(tables, shards, lookups)
    lookup = EmbeddingLookup(
        lookups=amount(lookups),
        row_bytes=amount(shards.lookups(per_lookup * weights)),
        output_bytes=amount(pooled * settings.forward_bytes),
        index_bytes=amount(lookups * settings.index_bytes + shards.samples * features * settings.length_bytes),
        tables=amount(features),
        missed=_misses(tables, settings, shards, per_lookup, weights),
        deviation=deviation,
    )
    update = EmbeddingUpdate(
        lookups=amount(lookups),
        unique_rows=amount(shards.distinct(distinct)),
        gradient_bytes=amount(gradients),
        weight_bytes=amount(2.0 * shards.distinct(distinct * weights)),
        state_bytes=amount(2.0 * shards.distinct(distinct * state)),
        sort_bytes=amount(
            sort_bytes(lookups, shards.rows(tables.rows[table].astype(np.float64)), settings.index_bytes)
        ),
        tables=amount(features),
        repeated_gradient_bytes=amount(gradient_reads - gradients),
        gradient_block_bytes=amount(pooled * settings.backward_bytes / np.maximum(features, 1.0)),
        padding_bytes=amount(2.0 * shards.distinct(distinct * (sectors(weights) - weights + sectors(state) - state))),
        deviation=deviation,
    )
    return lookup, update


def _misses(
    tables: Tables, settings: DlrmSettings, shards: KernelShards, lookups: FloatArray, weights: FloatArray
) -> Misses:
    """Bytes of rows behind caches: all lookups of shards ``[S]`` that miss, in whole sectors."""
    shares = missed_shares(tables, settings, shards.table, weights, shards.samples, shards.parts)
    found = np.stack([shards.lookups(lookups * sectors(weights) * share) for share in shares])
    return Misses(CACHE_BYTES, found[:, 0] if np.all(found == found[:, :1]) else found)


def _deviation(tables: Tables, shards: KernelShards, lookups: FloatArray) -> Amount:
    """Standard deviation of the lookups on each rank over their mean."""
    if not tables.pooling:
        return 0.0
    variance = batch_deviation(tables, shards.samples)[shards.table] ** 2
    of_rank = np.sqrt(shards.lookups(variance))
    return amount(np.divide(of_rank, lookups, out=np.zeros_like(lookups), where=lookups > 0.0))
