"""Lookups, updates and exchanges of each rank under a plan.

Tables of one kind of sharding share kernels and collectives, as in TorchRec: column shards (table_wise, column_wise,
table_column_wise) exchange by all_to_all; tables cut by rows over a node (table_row_wise, grid_shard) by a
reduce_scatter inside the node and an all_to_all among the ranks with the same place in their nodes; row blocks over all
ranks by reduce_scatter and all_gather; copies not at all.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simulator.operators import FloatArray
from simulator.precisions import WIRE_BYTES
from simulator.program import IntArray
from workloads.dlrm.iteration.copies import copied_group, frequent_group
from workloads.dlrm.iteration.groups import EmbeddingGroup, Exchange
from workloads.dlrm.iteration.hybrid import FrequentRows, check_hybrid, frequent_rows
from workloads.dlrm.iteration.sequence_groups import sequence_groups
from workloads.dlrm.model.batch_contents import batch_lookups
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.rows.blocks import block_shares
from workloads.dlrm.rows.kernels import KernelShards, Summed, amount, kernels
from workloads.dlrm.rows.traffic import table_traffic
from workloads.dlrm.sharding.plan import Plan
from workloads.graph.levels import CROSS_NODE, NODE, WORLD


def embedding_groups(plan: Plan, settings: DlrmSettings, *, bottom_width: int = 0) -> tuple[EmbeddingGroup, ...]:
    """The groups that a plan has, copies last (their gradients are ready first to be bucketed with the dense ones).

    Args:
        bottom_width: elements of a vector that the first rank sends beside its pooled ones (output of a bottom MLP).

    Raises:
        InputError: hybrid embedding of tables that HugeCTR does not split so.
    """
    if plan.tables.sequences:
        return sequence_groups(plan, settings)
    groups: list[EmbeddingGroup] = []
    if settings.hybrid is not None:
        check_hybrid(plan, settings)
    frequent = frequent_rows(plan.tables, settings, plan.columns.table)
    if len(plan.columns):
        groups.append(_column_group(plan, settings, frequent, bottom_width))
    if len(plan.row_wise):
        groups.append(_row_group(plan, settings))
    if len(plan.nodes):
        groups.append(_node_group(plan, settings))
    if frequent.rows.any():
        groups.append(frequent_group(plan, settings, frequent))
    if len(plan.data_parallel):
        groups.append(copied_group(plan, settings))
    return tuple(groups)


def _summed(place: IntArray, count: int) -> Callable[[FloatArray], FloatArray]:
    """Add values of shards ``[S]`` by the rank or node that holds them ``[count]``."""
    return lambda values: np.asarray(np.bincount(place, weights=values, minlength=count), dtype=np.float64)


def _values(sent: FloatArray, received: FloatArray, settings: DlrmSettings) -> Exchange:
    """Indices sent to the owners.

    Args:
        sent: lookups that each rank's samples ask for ``[P]``, or of all ranks together ``[1]`` when they are alike.
        received: lookups that each rank serves ``[P]``.
    """
    per_rank = sent if len(sent) > 1 else sent / settings.world_size
    return Exchange(amount(per_rank * settings.index_bytes), received)


def _column_group(plan: Plan, settings: DlrmSettings, frequent: FrequentRows, bottom_width: int) -> EmbeddingGroup:
    columns, tables, batch = plan.columns, plan.tables, settings.global_batch_size
    by_rank = _summed(columns.rank, plan.world_size)
    left = (1.0 - frequent.share)[columns.table]
    touched = table_traffic(tables, batch, settings).distinct
    rest = np.divide(touched - frequent.distinct, touched, out=np.ones_like(touched), where=touched > 0.0)
    rest = np.clip(rest, 0.0, 1.0)[columns.table]
    shards = KernelShards(
        columns.table,
        columns.dim,
        batch,
        1,
        lookups=lambda values: by_rank(values * left),
        distinct=lambda values: by_rank(values * rest),
        rows=by_rank,
        full=by_rank,
        outputs=lambda values: by_rank(values * left),
    )
    made = kernels(tables, settings, shards, plan.storage)
    features = by_rank(tables.features[columns.table].astype(np.float64))
    owned = by_rank(columns.dim * tables.features[columns.table] * left)  # one vector per lookup where some are copied
    owned[0] += bottom_width
    copies = np.bincount(columns.table, weights=left, minlength=len(tables))
    local, sent = settings.local_batch_size, batch_lookups(tables, settings)
    forward = Exchange(amount(settings.exchanged_samples * owned * settings.forward_bytes))
    backward = Exchange(local * float(owned.sum()) * settings.backward_bytes, owned)
    return EmbeddingGroup(
        kind="column",
        lookup=made.lookup,
        update=made.update,
        scattered=_scattered(plan, settings, owned),
        fill=made.fill,
        width=int(columns.dim @ tables.features[columns.table]),
        lengths=Exchange(local * float(features.sum()) * settings.length_bytes, features),
        values=_values(copies @ sent, by_rank(sent.sum(axis=1)[columns.table] * left), settings),
        forward=(forward.call("all_to_all", WORLD, settings.precision.forward_all_to_all),),
        backward=(backward.call("all_to_all", WORLD, settings.precision.backward_all_to_all),),
    )


def _scattered(plan: Plan, settings: DlrmSettings, owned: FloatArray) -> tuple[float, ...]:
    """Elements of a sample at the root of each scatter: of each rank, or of each table (each range of its columns).

    Args:
        owned: elements of each rank ``[P]``.
    """
    if settings.exchange == "all_to_all" or settings.world_size == 1:
        return ()
    columns = plan.columns
    if settings.exchange == "scatter":
        return tuple(owned[owned > 0.0].tolist())
    of_table = (columns.dim * plan.tables.features[columns.table]).astype(np.float64)
    rest = owned - _summed(columns.rank, plan.world_size)(of_table)
    in_order = of_table[np.lexsort((columns.table, columns.rank))]
    return (*in_order.tolist(), *rest[rest > 0.0].tolist())


def _row_group(plan: Plan, settings: DlrmSettings) -> EmbeddingGroup:
    tables, ranks, batch, table = plan.tables, plan.world_size, settings.global_batch_size, plan.row_wise
    rows = plan.block_rows()
    share = rows / tables.rows[table][:, None]
    of_lookups, of_distinct = block_shares(tables, settings, table, ranks)
    shards = KernelShards(
        table,
        tables.dim[table],
        batch,
        ranks,
        lookups=lambda values: values @ of_lookups,
        distinct=lambda values: values @ of_distinct,
        rows=lambda values: values @ share,
        full=lambda values: np.full(ranks, values.sum()),
    )
    made = kernels(tables, settings, shards, plan.storage)
    width, sent = int(tables.pooled_dim[table].sum()), batch_lookups(tables, settings)[table]
    exchanged = float(settings.exchanged_samples)
    pooled, features = exchanged * width, float(tables.features[table].sum())
    summed, gathered = settings.summed_forward, settings.gathered_backward
    forward, backward = Exchange(pooled * WIRE_BYTES[summed]), Exchange(pooled * WIRE_BYTES[gathered])
    return EmbeddingGroup(
        kind="row_wise",
        lookup=made.lookup,
        update=made.update,
        fill=made.fill,
        width=width,
        lengths=Exchange(exchanged * features * settings.length_bytes),
        values=_values(sent.sum(axis=0), sent.sum(axis=1) @ of_lookups, settings),
        forward=(forward.call("reduce_scatter", WORLD, summed),),
        backward=(backward.call("all_gather", WORLD, gathered),),
    )


def _node_group(plan: Plan, settings: DlrmSettings) -> EmbeddingGroup:
    """Tables cut by rows over nodes.

    Every rank of a node has a partial sum of the node's columns for all samples. The reduce_scatter leaves rank l of a
    node with the sums for the samples of all ranks l, which it sends to them across nodes; gradients go back the same
    way (software facts: torchrec embedding_sharding.py, dist_data.py).
    """
    nodes, tables, batch, local_ranks = plan.nodes, plan.tables, settings.global_batch_size, plan.local_world_size
    rows = plan.node_block_rows()
    share = rows / tables.rows[nodes.table][:, None]
    of_lookups, of_distinct = block_shares(tables, settings, nodes.table, local_ranks)
    by_node = _summed(nodes.node, plan.node_count)

    def on_ranks(values: FloatArray) -> FloatArray:
        """The node's sum on each rank of the shard's node ``[P]``."""
        return np.repeat(by_node(values), local_ranks)

    def shared(share: FloatArray) -> Summed:
        """Adds up the part that the shares ``[S, L]`` of a node's ranks have ``[P]``."""
        return lambda values: np.stack([by_node(values * part) for part in share.T], axis=1).ravel()

    shards = KernelShards(
        nodes.table, nodes.dim, batch, local_ranks, shared(of_lookups), shared(of_distinct), shared(share), on_ranks
    )
    made = kernels(tables, settings, shards, plan.storage)
    owned = on_ranks((nodes.dim * tables.features[nodes.table]).astype(np.float64))
    features = on_ranks(tables.features[nodes.table].astype(np.float64))
    sent, copies = batch_lookups(tables, settings), np.bincount(nodes.table, minlength=len(tables)).astype(np.float64)
    width, local = int(owned[::local_ranks].sum()), settings.local_batch_size
    exchanged = settings.exchanged_samples
    summed = exchanged / local_ranks  # samples with sums on a rank after the reduce_scatter
    sizes, precision = (settings.forward_bytes, settings.backward_bytes), settings.precision
    partial, gathered = settings.summed_forward, settings.gathered_backward
    return EmbeddingGroup(
        kind="node_wise",
        lookup=made.lookup,
        update=made.update,
        fill=made.fill,
        width=width,
        lengths=Exchange(local * float(features.sum()) * settings.length_bytes, features),
        values=_values(copies @ sent, shared(of_lookups)(sent.sum(axis=1)[nodes.table]), settings),
        forward=(
            Exchange(exchanged * owned * WIRE_BYTES[partial]).call("reduce_scatter", NODE, partial),
            Exchange(summed * owned * sizes[0]).call("all_to_all", CROSS_NODE, precision.forward_all_to_all),
        ),
        backward=(
            Exchange(local * width * sizes[1], owned).call("all_to_all", CROSS_NODE, precision.backward_all_to_all),
            Exchange(exchanged * owned * WIRE_BYTES[gathered]).call("all_gather", NODE, gathered),
        ),
    )
