"""Embedding rows that every rank has a copy of: whole tables, and the frequent rows of hybrid ones."""

from __future__ import annotations

import numpy as np

from simulator.operators import FloatArray
from workloads.dlrm.iteration.groups import EmbeddingGroup
from workloads.dlrm.iteration.hybrid import FrequentRows
from workloads.dlrm.model.batch_contents import batch_lookups
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.storage import uniform_storage
from workloads.dlrm.rows.kernels import KernelShards, Summed, amount, dense_gradient, kernels
from workloads.dlrm.rows.traffic import asked_share, table_traffic
from workloads.dlrm.sharding.plan import Plan


def frequent_group(plan: Plan, settings: DlrmSettings, frequent: FrequentRows) -> EmbeddingGroup:
    """Frequent rows of otherwise sharded tables: each rank looks up those of its own samples.

    Their vectors have places in those of the tables, hence the group has no width of its own.
    """
    tables = plan.tables
    hybrid = np.flatnonzero(frequent.rows)
    touched = table_traffic(tables, settings.local_batch_size, settings).distinct[hybrid]
    part = np.divide(frequent.local_distinct[hybrid], touched, out=np.zeros_like(touched), where=touched > 0.0)

    def everywhere(weight: FloatArray) -> Summed:
        return lambda values: np.full(plan.world_size, float(values @ weight))

    share = frequent.share[hybrid]
    shards = KernelShards(
        hybrid,
        tables.dim[hybrid],
        settings.local_batch_size,
        1,
        lookups=everywhere(share),
        distinct=everywhere(part),
        rows=everywhere(frequent.rows[hybrid] / tables.rows[hybrid]),
        full=everywhere(np.ones(len(hybrid))),
        outputs=everywhere(share),
    )
    made = kernels(tables, settings, shards, uniform_storage(len(tables)))
    parameters = int(frequent.rows[hybrid] @ tables.dim[hybrid])
    size = float((frequent.rows * tables.dim * tables.element_bytes)[hybrid].sum())
    return EmbeddingGroup(
        "frequent",
        made.lookup,
        dense_gradient(made.update, size),
        0,
        copied_parameters=parameters,
        copied_bytes=size,
    )


def copied_group(plan: Plan, settings: DlrmSettings) -> EmbeddingGroup:
    """Tables that are copied whole."""
    tables, copied = plan.tables, plan.data_parallel

    def everywhere(values: FloatArray) -> FloatArray:
        return np.full(plan.world_size, values.sum())

    dim = tables.dim[copied]
    sent = batch_lookups(tables, settings)[copied]
    total = sent.sum(axis=1, keepdims=True)
    part = np.divide(sent, total, out=np.zeros_like(sent), where=total > 0.0)  # a batch may have no position at all
    own = np.broadcast_to(part, (len(copied), plan.world_size)) * plan.world_size
    samples = settings.local_batch_size  # ranks of pooled tables have the samples of the largest share
    shards = KernelShards(
        copied,
        dim,
        settings.global_batch_size / plan.world_size if tables.sequences else samples,
        1,
        lookups=everywhere if sent.shape[1] == 1 else lambda values: values @ own,
        distinct=everywhere,
        rows=everywhere,
        full=everywhere,
    )
    made = kernels(tables, settings, shards, uniform_storage(len(tables)))
    size = float(tables.weight_bytes[copied].sum())
    ranks = 1 if sent.shape[1] > 1 else plan.world_size
    asked = asked_share(tables, settings)[copied]
    return EmbeddingGroup(
        "data_parallel",
        made.lookup,
        dense_gradient(made.update, size),
        int(tables.pooled_dim[copied].sum()),
        copied_parameters=int(tables.rows[copied] @ dim),
        copied_bytes=size,
        received=amount((dim * asked) @ sent / ranks) if tables.sequences else 0.0,
        unpooled=amount(dim @ sent / ranks) if tables.sequences else 0.0,
    )
