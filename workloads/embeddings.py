"""What each rank looks up, updates and exchanges under a plan.

Tables of one kind of sharding share kernels and collectives, as in TorchRec: column shards (table_wise and
column_wise) exchange by all_to_all, row blocks by reduce_scatter and all_gather, copies not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from simulator.operators import (
    Amount,
    CollectiveCall,
    CollectiveOp,
    EmbeddingLookup,
    EmbeddingUpdate,
    FloatArray,
)
from simulator.program import IntArray
from workloads.plan import Plan
from workloads.settings import STATE_BYTES, DlrmSettings, state_elements
from workloads.traffic import sort_bytes, table_traffic

WORLD, INPUT_WORLD = "world", "input_world"
"""Communicators: all ranks; all ranks again, for input_dist with a process group of its own."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Bytes of a collective: what each rank sends, and the weights of the receivers (None: even)."""

    bytes: Amount
    receivers: FloatArray | None = None

    def call(self, op: CollectiveOp, communicator: str, dtype: str) -> CollectiveCall:
        """The collective with these amounts."""
        return CollectiveCall(op, communicator, self.bytes, dtype=dtype, receive_bytes=self.receivers)


@dataclass(frozen=True, slots=True)
class EmbeddingGroup:
    """Tables of one kind of sharding.

    Attributes:
        kind: the kind.
        lookup: forward kernel.
        update: backward kernel fused with the optimizer.
        width: elements of the pooled vectors of one sample, all tables of the group.
        lengths: bag lengths sent to the owners, None for copies.
        values: indices sent to the owners, None for copies.
        forward: pooled vectors to the ranks of their samples, None for copies.
        backward: their gradients back, None for copies.
        copied_parameters: weights of copied tables, whose gradients are summed over ranks.
    """

    kind: Literal["column", "row_wise", "data_parallel"]
    lookup: EmbeddingLookup
    update: EmbeddingUpdate
    width: int
    lengths: Exchange | None
    values: Exchange | None
    forward: CollectiveCall | None
    backward: CollectiveCall | None
    copied_parameters: int = 0


@dataclass(frozen=True, slots=True)
class _Shards:
    """Shards of one kind: their tables and columns ``[S]``, and how amounts per shard add up on ranks.

    ``shared`` sums what is divided over ranks (lookups, rows), ``full`` what each holder has in full (outputs).
    """

    table: IntArray
    dim: IntArray
    samples: float
    shared: Callable[[FloatArray], FloatArray]
    full: Callable[[FloatArray], FloatArray]


def embedding_groups(plan: Plan, settings: DlrmSettings) -> tuple[EmbeddingGroup, ...]:
    """The groups that a plan has, copies last (their gradients are ready first to be bucketed with the dense ones)."""
    groups: list[EmbeddingGroup] = []
    if len(plan.columns):
        groups.append(_column_group(plan, settings))
    if len(plan.row_wise):
        groups.append(_row_group(plan, settings))
    if len(plan.data_parallel):
        groups.append(_copied_group(plan, settings))
    return tuple(groups)


def amount(values: FloatArray) -> Amount:
    """A scalar where all ranks have the same, else ``[P]``."""
    return float(values[0]) if values.size and np.all(values == values[0]) else values


def _column_group(plan: Plan, settings: DlrmSettings) -> EmbeddingGroup:
    columns, ranks, batch = plan.columns, plan.world_size, settings.global_batch_size

    def by_rank(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(columns.rank, weights=values, minlength=ranks), dtype=np.float64)

    shards = _Shards(columns.table, columns.dim, batch, by_rank, by_rank)
    lookup, update = _kernels(plan, settings, shards)
    owned = by_rank(columns.dim.astype(np.float64))
    lookups = by_rank(plan.tables.pooling_factor[columns.table])
    features = by_rank(np.ones(len(columns)))
    local = settings.local_batch_size
    forward = Exchange(amount(batch * owned * settings.forward_bytes))
    backward = Exchange(local * float(owned.sum()) * settings.backward_bytes, owned)
    return EmbeddingGroup(
        kind="column",
        lookup=lookup,
        update=update,
        width=int(owned.sum()),
        lengths=Exchange(local * float(features.sum()) * settings.length_bytes, features),
        values=Exchange(local * float(lookups.sum()) * settings.index_bytes, lookups),
        forward=forward.call("all_to_all", WORLD, settings.precision.forward_all_to_all),
        backward=backward.call("all_to_all", WORLD, settings.precision.backward_all_to_all),
    )


def _row_group(plan: Plan, settings: DlrmSettings) -> EmbeddingGroup:
    tables, ranks, batch = plan.tables, plan.world_size, settings.global_batch_size
    share = plan.block_rows() / tables.rows[plan.row_wise][:, None]
    dim = tables.dim[plan.row_wise]
    shards = _Shards(
        plan.row_wise, dim, batch, lambda values: values @ share, lambda values: np.full(ranks, values.sum())
    )
    lookup, update = _kernels(plan, settings, shards)
    local, width = settings.local_batch_size, int(dim.sum())
    lookups = tables.pooling_factor[plan.row_wise] @ share
    pooled = float(batch) * width
    forward, backward = Exchange(pooled * settings.forward_bytes), Exchange(pooled * settings.backward_bytes)
    return EmbeddingGroup(
        kind="row_wise",
        lookup=lookup,
        update=update,
        width=width,
        lengths=Exchange(float(batch) * len(dim) * settings.length_bytes),
        values=Exchange(local * float(lookups.sum()) * settings.index_bytes, lookups),
        forward=forward.call("reduce_scatter", WORLD, settings.precision.forward_all_to_all),
        backward=backward.call("all_gather", WORLD, settings.precision.backward_all_to_all),
    )


def _copied_group(plan: Plan, settings: DlrmSettings) -> EmbeddingGroup:
    tables, copied = plan.tables, plan.data_parallel

    def everywhere(values: FloatArray) -> FloatArray:
        return np.full(plan.world_size, values.sum())

    dim = tables.dim[copied]
    shards = _Shards(copied, dim, settings.local_batch_size, everywhere, everywhere)
    lookup, update = _kernels(plan, settings, shards)
    parameters = int(tables.rows[copied] @ dim)
    gradient = EmbeddingUpdate(  # a dense gradient is cleared and written; the dense optimizer updates the weights
        lookups=update.lookups,
        unique_rows=update.unique_rows,
        gradient_bytes=update.gradient_bytes,
        weight_bytes=2.0 * float(tables.weight_bytes[copied].sum()),
        state_bytes=0.0,
        sort_bytes=update.sort_bytes,
        tables=update.tables,
        repeated_gradient_bytes=update.repeated_gradient_bytes,
        gradient_block_bytes=update.gradient_block_bytes,
    )
    return EmbeddingGroup("data_parallel", lookup, gradient, int(dim.sum()), None, None, None, None, parameters)


def _kernels(plan: Plan, settings: DlrmSettings, shards: _Shards) -> tuple[EmbeddingLookup, EmbeddingUpdate]:
    """Forward and backward kernel of a group; byte counts as in `workloads.traffic`."""
    tables, table, dim = plan.tables, shards.table, shards.dim
    traffic = table_traffic(tables, shards.samples, settings)
    per_lookup, distinct = traffic.lookups[table], traffic.distinct[table]
    weights = dim * tables.element_bytes[table]
    state = state_elements(settings.optimizer.tables, np.ones_like(dim), dim) * STATE_BYTES
    lookups, features = shards.shared(per_lookup), shards.full(np.ones(len(table)))
    pooled = shards.full(shards.samples * dim.astype(np.float64))
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
