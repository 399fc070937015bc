"""Amounts of a batch of one server: rows by tier, bytes that move, time of the host's threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.operators import CacheFill, EmbeddingLookup, FloatArray, HostTraffic, SsdRead
from workloads.dlrm.iteration.groups import EmbeddingGroup
from workloads.dlrm.iteration.job import Job
from workloads.dlrm.iteration.residency import with_residency
from workloads.dlrm.model.dense import DensePart
from workloads.dlrm.model.model import DlrmModel
from workloads.dlrm.model.storage import CACHE_WAYS, uniform_storage
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.cache import PROBED_SLOT_BYTES, SSD_READ_BYTES
from workloads.dlrm.rows.kernels import KernelShards, kernels
from workloads.dlrm.rows.traffic import sort_bytes
from workloads.dlrm.sharding.plan import Plan, make_plan
from workloads.dlrm.sharding.shards import ColumnShards
from workloads.inference.settings import SSD_READ_S, InferenceSettings
from workloads.inference.tiers import BatchRows, rows_of_batch

KEY_BYTES = 8
"""Size of a key of the cache (HugeCTR's embedding cache: 64 bits, recalled)."""


@dataclass(frozen=True, slots=True)
class MissingRows:
    """Work on the rows of a batch that the cache lacks.

    Attributes:
        query: lookup of distinct rows in the cache; None without a cache.
        key_bytes: size of the keys of missing rows.
        host_s: time of the host's threads, seconds.
        ssd: pages read from SSDs; None where host memory has all rows.
        row_bytes: size of the missing rows.
    """

    query: CacheFill | None
    key_bytes: float
    host_s: float
    ssd: SsdRead | None
    row_bytes: float


@dataclass(frozen=True, slots=True)
class BatchWork:
    """A batch of one server.

    Attributes:
        job: the model on one rank, as the forward pass of its training has it.
        lookup: lookup of all rows in device memory.
        missing: rows that the cache lacks; None where the server has all of them.
    """

    job: Job
    lookup: EmbeddingLookup
    missing: MissingRows | None


def batch_work(model: DlrmModel, tables: Tables, dense: DensePart, settings: InferenceSettings) -> BatchWork:
    """Amounts of a batch of ``settings.batch`` samples."""
    table = np.arange(len(tables))
    columns = ColumnShards(table=table, rank=np.zeros_like(table), column=np.zeros_like(table), dim=tables.dim)
    plan = make_plan(tables, 1, 1, "whole_model", columns=columns)
    group = _group(plan, dense, settings)
    job = Job(plan, settings.dlrm(settings.batch), dense, model.interaction.value, (group,), ())
    whole = settings.gpu_cache is None or settings.gpu_cache >= 1.0
    missing = None if whole else missing_rows(tables, settings, rows_of_batch(tables, settings, settings.batch))
    return BatchWork(job, group.lookup, missing)


def _group(plan: Plan, dense: DensePart, settings: InferenceSettings) -> EmbeddingGroup:
    """All tables on the server; on CPUs with the rows that their caches hold."""
    tables, table = plan.tables, plan.columns.table
    shards = KernelShards(table, tables.dim, float(settings.batch), 1, _sum, _sum, _sum, _sum)
    counted = settings.dlrm(settings.most)
    made = kernels(tables, counted, shards, uniform_storage(len(tables)))
    group = EmbeddingGroup("column", made.lookup, made.update, int(tables.pooled_dim.sum()))
    return with_residency((group,), plan, settings.dlrm(settings.batch), dense)[0] if settings.on_host else group


def _sum(values: FloatArray) -> FloatArray:
    """The sum over shards on the only rank ``[1]``."""
    return np.array([float(np.sum(values))])


def missing_rows(tables: Tables, settings: InferenceSettings, rows: BatchRows) -> MissingRows:
    """Work on the rows that the cache lacks, with as many more of them as the settings say."""
    host, ssd = (
        of * max(0.0, 1.0 + more * float(np.sqrt(variance.sum())) / max(float(of.sum()), 1e-300))
        for of, variance, more in zip(
            (rows.host, rows.ssd), (rows.host_variance, rows.ssd_variance), settings.more_rows, strict=True
        )
    )
    row_bytes = (tables.dim * tables.element_bytes).astype(np.float64)
    on_ssd = float(ssd.sum())
    threads_s = (settings.host_row_s * float(host.sum()) + settings.ssd_row_s * on_ssd) / settings.host_threads
    pages = SsdRead(float(ssd @ np.maximum(row_bytes, SSD_READ_BYTES)))
    return MissingRows(
        query=_query(tables, settings, rows) if settings.gpu_cache else None,
        key_bytes=KEY_BYTES * float(host.sum() + on_ssd),
        host_s=threads_s + SSD_READ_S * -float(np.expm1(-on_ssd)),  # no page has to come where no row is on SSDs
        ssd=pages if on_ssd > 0.0 else None,
        row_bytes=float((host + ssd) @ row_bytes),
    )


def _query(tables: Tables, settings: InferenceSettings, rows: BatchRows) -> CacheFill:
    """Lookup of a batch in the cache: keys made unique, then slots of their sets compared."""
    index_bytes, lookups = settings.framework.index_bytes.value, float(rows.lookups.sum())
    held = np.array([float(tables.rows.sum())])
    sort = 2.0 * lookups * index_bytes + float(sort_bytes(np.array([lookups]), held, index_bytes)[0])
    probes = (lookups + float(rows.distinct.sum())) * CACHE_WAYS * PROBED_SLOT_BYTES
    return CacheFill(sort_bytes=sort, probe_bytes=probes, row_bytes=0.0, host=HostTraffic())
