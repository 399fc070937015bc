"""Lookups, updates and exchanges of sequences under a plan: one vector for each position, and no sums.

TorchRec's EmbeddingCollection shards tables of sequences whole, by columns, by rows over all ranks, or copies them
(torchrec/distributed/embedding.py). Whatever the kind, an all_to_all brings the vectors to the ranks of their samples,
and their gradients back: a rank receives as many vectors as its samples have positions, and sends a vector for every
lookup of its shards, many where they have popular rows (torchrec/distributed/sharding/rw_sequence_sharding.py).
"""

from __future__ import annotations

import numpy as np

from inputs.errors import InputError
from simulator.operators import FloatArray
from workloads.dlrm.iteration.copies import copied_group
from workloads.dlrm.iteration.groups import EmbeddingGroup, Exchange, GroupKind
from workloads.dlrm.model.batch_contents import batch_lookups
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.blocks import block_shares
from workloads.dlrm.rows.kernels import KernelShards, amount, kernels
from workloads.dlrm.rows.traffic import asked_share
from workloads.dlrm.sharding.plan import Plan
from workloads.dlrm.sharding.plan_file import OF_SEQUENCES
from workloads.graph.levels import WORLD


def sequence_groups(plan: Plan, settings: DlrmSettings) -> tuple[EmbeddingGroup, ...]:
    """The groups that a plan of sequences has, copies last.

    Raises:
        InputError: hybrid embedding, or tables cut within nodes, which TorchRec does not have for sequences.
    """
    if settings.hybrid is not None:
        raise InputError(
            "frequent rows of sequences have no copies",
            key="workload.hybrid_embedding",
            given="hybrid_embedding",
            expected="no such key for a model of sequences",
        )
    within_nodes = [*plan.nodes.table.tolist(), *plan.table_column_wise.tolist()]
    if within_nodes:
        raise InputError(
            f"the table {plan.tables.names[within_nodes[0]]} of a sequence is cut within nodes",
            key="workload.sharding",
            given=plan.sharding_types[within_nodes[0]],
            expected=f"one of {', '.join(OF_SEQUENCES)}",
        )
    groups: list[EmbeddingGroup] = []
    if len(plan.columns):
        groups.append(_column_group(plan, settings))
    if len(plan.row_wise):
        groups.append(_row_group(plan, settings))
    if len(plan.data_parallel):
        groups.append(copied_group(plan, settings))
    return tuple(groups)


def _column_group(plan: Plan, settings: DlrmSettings) -> EmbeddingGroup:
    columns, tables, ranks = plan.columns, plan.tables, plan.world_size

    def by_rank(values: FloatArray) -> FloatArray:
        return np.bincount(columns.rank, weights=values, minlength=ranks).astype(np.float64)

    shards = KernelShards(columns.table, columns.dim, settings.global_batch_size, 1, by_rank, by_rank, by_rank, by_rank)
    served = _asked(tables, settings).sum(axis=1)[columns.table]
    return _group(
        "sequence_column",
        plan,
        settings,
        shards,
        owned=by_rank(served * columns.dim),
        served=by_rank(served),
        features=by_rank(tables.features[columns.table].astype(np.float64)),
        copies=np.bincount(columns.table, minlength=len(tables)).astype(np.float64),
        dim=np.bincount(columns.table, weights=columns.dim, minlength=len(tables)).astype(np.float64),
    )


def _row_group(plan: Plan, settings: DlrmSettings) -> EmbeddingGroup:
    tables, ranks, table = plan.tables, plan.world_size, plan.row_wise
    share = plan.block_rows() / tables.rows[table][:, None]
    of_lookups, of_distinct = block_shares(tables, settings, table, ranks)
    shards = KernelShards(
        table,
        tables.dim[table],
        settings.global_batch_size,
        ranks,
        lookups=lambda values: values @ of_lookups,
        distinct=lambda values: values @ of_distinct,
        rows=lambda values: values @ share,
        full=lambda values: np.full(ranks, values.sum()),
    )
    served = _asked(tables, settings).sum(axis=1)[table]
    chosen = np.zeros(len(tables))
    chosen[table] = 1.0
    return _group(
        "sequence_row_wise",
        plan,
        settings,
        shards,
        owned=(served * tables.dim[table]) @ of_lookups,
        served=served @ of_lookups,
        features=np.full(ranks, float(tables.features[table].sum())),
        copies=chosen,
        dim=chosen * tables.dim,
    )


def _group(
    kind: GroupKind,
    plan: Plan,
    settings: DlrmSettings,
    shards: KernelShards,
    *,
    owned: FloatArray,
    served: FloatArray,
    features: FloatArray,
    copies: FloatArray,
    dim: FloatArray,
) -> EmbeddingGroup:
    """A group that exchanges vectors by one all_to_all each way.

    Args:
        owned: elements of the vectors that each rank's shards give for all samples ``[P]``.
        served: lookups that they serve ``[P]``.
        features: features whose lengths they need ``[P]``.
        copies: ranks that need the indices of each table ``[N]``.
        dim: elements of each table's vectors in this group ``[N]``.
    """
    made = kernels(plan.tables, settings, shards, plan.storage)
    sent, batch, ranks = _asked(plan.tables, settings), settings.local_batch_size, plan.world_size
    received, asked = _per_rank(dim @ sent, ranks), _per_rank(copies @ sent, ranks)
    even = len(received) == 1
    precision = settings.precision
    forward = Exchange(amount(owned * settings.forward_bytes), None if even else received)
    backward = Exchange(amount(received * settings.backward_bytes), owned)
    return EmbeddingGroup(
        kind=kind,
        lookup=made.lookup,
        update=made.update,
        fill=made.fill,
        width=0,
        lengths=Exchange(batch * float(features.sum()) * settings.length_bytes, features),
        values=Exchange(amount(asked * settings.index_bytes), served),
        forward=(forward.call("all_to_all", WORLD, precision.forward_all_to_all),),
        backward=(backward.call("all_to_all", WORLD, precision.backward_all_to_all),),
        received=amount(received),
        unpooled=amount(_per_rank(dim @ batch_lookups(plan.tables, settings), ranks)),
    )


def _asked(tables: Tables, settings: DlrmSettings) -> FloatArray:
    """Rows of each table that ranks ask the owners for ``[N, P]``, ``[N, 1]`` of all when ranks are alike."""
    return batch_lookups(tables, settings) * asked_share(tables, settings)[:, None]


def _per_rank(values: FloatArray, ranks: int) -> FloatArray:
    """Amounts of each rank ``[P]``, or ``[1]`` of any rank where they are alike; given ``[P]``, or ``[1]`` of all."""
    return values if len(values) > 1 else values / ranks
