"""What each rank looks up, updates and exchanges under a plan.

Tables of one kind of sharding share kernels and collectives, as in TorchRec: column shards (table_wise, column_wise,
table_column_wise) exchange by all_to_all; tables cut by rows over a node (table_row_wise, grid_shard) by a
reduce_scatter inside the node and an all_to_all among the ranks with the same place in their nodes; row blocks over all
ranks by reduce_scatter and all_gather; copies not at all.
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
    Operator,
)
from simulator.program import IntArray
from workloads.kernels import KernelShards, amount, kernels
from workloads.plan import Plan
from workloads.settings import DlrmSettings

WORLD, INPUT_WORLD = "world", "input_world"
"""Communicators: all ranks; all ranks again, for input_dist with a process group of its own."""
NODE, CROSS_NODE = "node", "cross_node"
"""Communicators: the ranks of each node; the ranks with the same place in all nodes (torchrec dist_data.py)."""


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
        forward: pooled vectors to the ranks of their samples, one call after the other; none for copies.
        backward: their gradients back, likewise.
        fill: what brings the missing rows of a batch into the cache; None for tables without one.
        copied_parameters: weights of copied tables, whose gradients are summed over ranks.
    """

    kind: Literal["column", "node_wise", "row_wise", "data_parallel"]
    lookup: EmbeddingLookup
    update: EmbeddingUpdate
    width: int
    lengths: Exchange | None
    values: Exchange | None
    forward: tuple[CollectiveCall, ...]
    backward: tuple[CollectiveCall, ...]
    fill: Operator | None = None
    copied_parameters: int = 0

    @property
    def cut_by_rows(self) -> bool:
        """Whether the indices of a table go to several ranks, by row."""
        return self.kind in ("node_wise", "row_wise")


def embedding_groups(plan: Plan, settings: DlrmSettings) -> tuple[EmbeddingGroup, ...]:
    """The groups that a plan has, copies last (their gradients are ready first to be bucketed with the dense ones)."""
    groups: list[EmbeddingGroup] = []
    if len(plan.columns):
        groups.append(_column_group(plan, settings))
    if len(plan.row_wise):
        groups.append(_row_group(plan, settings))
    if len(plan.nodes):
        groups.append(_node_group(plan, settings))
    if len(plan.data_parallel):
        groups.append(_copied_group(plan, settings))
    return tuple(groups)


def _summed(place: IntArray, count: int) -> Callable[[FloatArray], FloatArray]:
    """Add values of shards ``[S]`` by the rank or node that holds them ``[count]``."""
    return lambda values: np.asarray(np.bincount(place, weights=values, minlength=count), dtype=np.float64)


def _column_group(plan: Plan, settings: DlrmSettings) -> EmbeddingGroup:
    columns, tables, batch = plan.columns, plan.tables, settings.global_batch_size
    by_rank = _summed(columns.rank, plan.world_size)
    lookup, update = kernels(
        tables, settings, KernelShards(columns.table, columns.dim, batch, shared=by_rank, full=by_rank)
    )
    features = by_rank(tables.features[columns.table].astype(np.float64))
    owned = by_rank((columns.dim * tables.features[columns.table]).astype(np.float64))
    lookups = by_rank(tables.lookups_per_sample[columns.table])
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
        forward=(forward.call("all_to_all", WORLD, settings.precision.forward_all_to_all),),
        backward=(backward.call("all_to_all", WORLD, settings.precision.backward_all_to_all),),
    )


def _row_group(plan: Plan, settings: DlrmSettings) -> EmbeddingGroup:
    tables, ranks, batch, table = plan.tables, plan.world_size, settings.global_batch_size, plan.row_wise
    share = plan.block_rows() / tables.rows[table][:, None]
    shards = KernelShards(
        table,
        tables.dim[table],
        batch,
        shared=lambda values: values @ share,
        full=lambda values: np.full(ranks, values.sum()),
    )
    lookup, update = kernels(tables, settings, shards)
    local, width = settings.local_batch_size, int(tables.pooled_dim[table].sum())
    lookups = tables.lookups_per_sample[table] @ share
    pooled, features = float(batch) * width, float(tables.features[table].sum())
    forward, backward = Exchange(pooled * settings.forward_bytes), Exchange(pooled * settings.backward_bytes)
    return EmbeddingGroup(
        kind="row_wise",
        lookup=lookup,
        update=update,
        width=width,
        lengths=Exchange(float(batch) * features * settings.length_bytes),
        values=Exchange(local * float(lookups.sum()) * settings.index_bytes, lookups),
        forward=(forward.call("reduce_scatter", WORLD, settings.precision.forward_all_to_all),),
        backward=(backward.call("all_gather", WORLD, settings.precision.backward_all_to_all),),
    )


def _node_group(plan: Plan, settings: DlrmSettings) -> EmbeddingGroup:
    """Tables cut by rows over nodes.

    Every rank of a node has a partial sum of the node's columns for all samples. The reduce_scatter leaves rank l of a
    node with the sums for the samples of all ranks l, which it sends to them across nodes; gradients go back the same
    way (software facts: torchrec embedding_sharding.py, dist_data.py).
    """
    nodes, tables, batch, local_ranks = plan.nodes, plan.tables, settings.global_batch_size, plan.local_world_size
    share = plan.node_block_rows() / tables.rows[nodes.table][:, None]
    by_node = _summed(nodes.node, plan.node_count)

    def on_ranks(values: FloatArray) -> FloatArray:
        """What each rank of the shard's node has in full ``[P]``."""
        return np.repeat(by_node(values), local_ranks)

    def shared(values: FloatArray) -> FloatArray:
        """The part that follows the rank's rows ``[P]``."""
        parts = [by_node(values * share[:, rank]) for rank in range(local_ranks)]
        return np.stack(parts, axis=1).ravel()

    lookup, update = kernels(tables, settings, KernelShards(nodes.table, nodes.dim, batch, shared, full=on_ranks))
    owned = on_ranks((nodes.dim * tables.features[nodes.table]).astype(np.float64))
    features = on_ranks(tables.features[nodes.table].astype(np.float64))
    lookups = shared(tables.lookups_per_sample[nodes.table])
    width, local = int(owned[::local_ranks].sum()), settings.local_batch_size
    summed = batch / local_ranks  # samples whose sums a rank has after the reduce_scatter
    sizes, precision = (settings.forward_bytes, settings.backward_bytes), settings.precision
    return EmbeddingGroup(
        kind="node_wise",
        lookup=lookup,
        update=update,
        width=width,
        lengths=Exchange(local * float(features.sum()) * settings.length_bytes, features),
        values=Exchange(local * float(lookups.sum()) * settings.index_bytes, lookups),
        forward=(
            Exchange(batch * owned * sizes[0]).call("reduce_scatter", NODE, precision.forward_all_to_all),
            Exchange(summed * owned * sizes[0]).call("all_to_all", CROSS_NODE, precision.forward_all_to_all),
        ),
        backward=(
            Exchange(local * width * sizes[1], owned).call("all_to_all", CROSS_NODE, precision.backward_all_to_all),
            Exchange(batch * owned * sizes[1]).call("all_gather", NODE, precision.backward_all_to_all),
        ),
    )


def _copied_group(plan: Plan, settings: DlrmSettings) -> EmbeddingGroup:
    tables, copied = plan.tables, plan.data_parallel

    def everywhere(values: FloatArray) -> FloatArray:
        return np.full(plan.world_size, values.sum())

    dim = tables.dim[copied]
    shards = KernelShards(copied, dim, settings.local_batch_size, everywhere, everywhere)
    lookup, update = kernels(tables, settings, shards)
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
    width, parameters = int(tables.pooled_dim[copied].sum()), int(tables.rows[copied] @ dim)
    return EmbeddingGroup("data_parallel", lookup, gradient, width, None, None, (), (), copied_parameters=parameters)
