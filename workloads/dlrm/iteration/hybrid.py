"""Hybrid embedding: frequent rows on all ranks, the others with their owners, as HugeCTR 3 has it for one-hot models.

A row is frequent when a batch looks it up more often than a threshold. On several nodes that is where an all_reduce of
its gradient is cheaper than sending its vectors (calibration_data.cu of HugeCTR v3.9.1, per iteration)::

    count > N^2 / (N - 1) x all_to_all rate / all_reduce rate x efficiency

with N ranks, on one node where one rank is likely to look it up twice in its M samples::

    count > batch x sqrt(2 p / (M (M - 1)))

Owners keep the frequent rows, too: their share of the memory of a table is small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inputs.errors import InputError
from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.model.choices import HybridEmbedding
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.storage import FUSED
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.traffic import popularity_of
from workloads.dlrm.sharding.plan import Plan


@dataclass(frozen=True, slots=True)
class FrequentRows:
    """Frequent rows of tables, all ``[N]``; 0 where a table is not hybrid.

    Attributes:
        rows: number of frequent rows.
        share: part of the table's lookups that goes to them.
        distinct: mean number of them that a batch over all ranks touches.
        local_distinct: mean number of them that a rank's own samples touch.
    """

    rows: IntArray
    share: FloatArray
    distinct: FloatArray
    local_distinct: FloatArray


def threshold(settings: DlrmSettings, chosen: HybridEmbedding) -> float:
    """Lookups of a row in a batch above which it is frequent."""
    if chosen.count_threshold is not None:
        return chosen.count_threshold
    ranks, samples = settings.world_size, settings.local_batch_size
    if ranks > settings.local_world_size:
        rates = chosen.all_to_all_bytes_per_s / chosen.all_reduce_bytes_per_s
        return ranks * ranks / (ranks - 1) * rates * chosen.efficiency
    pairs = max(samples * (samples - 1), 1)
    return float(settings.global_batch_size * np.sqrt(2.0 * chosen.duplicate_probability / pairs))


def frequent_rows(tables: Tables, settings: DlrmSettings, hybrid: IntArray) -> FrequentRows:
    """The frequent rows of the tables numbered ``hybrid``; none where the job has no hybrid embedding."""
    rows = np.zeros(len(tables), dtype=np.int64)
    share, distinct, local = (np.zeros(len(tables)) for _ in range(3))
    if settings.hybrid is not None:
        least, per_sample = threshold(settings, settings.hybrid), tables.lookups_per_sample
        for table in np.unique(hybrid).tolist():
            law = popularity_of(tables, settings, table)
            lookups = settings.global_batch_size * float(per_sample[table])
            frequent = law.p * lookups > least
            counts, p = law.count[frequent], law.p[frequent]
            rows[table], share[table] = round(float(counts.sum())), float(law.share[frequent].sum())
            for found, number in ((distinct, lookups), (local, lookups / settings.world_size)):
                found[table] = float(counts @ -np.expm1(number * np.log1p(-p)))
    return FrequentRows(rows, share, distinct, local)


def check_hybrid(plan: Plan, settings: DlrmSettings) -> None:
    """Refuse hybrid embedding of tables that HugeCTR does not split so.

    Raises:
        InputError: another optimizer than SGD, several lookups per feature, tables cut by rows, or not on the device.
    """
    tables, columns, key = plan.tables, np.unique(plan.columns.table), "workload.hybrid_embedding"
    if settings.optimizer.tables != "sgd" or settings.optimizer.dense != "sgd":
        given = f"{settings.optimizer.dense} and {settings.optimizer.tables}"
        raise InputError(
            "hybrid embedding is for SGD", key=key, given=given, expected="optimizer: {dense: sgd, tables: sgd}"
        )
    several = columns[tables.pooling_factor[columns] != 1.0]
    if len(several) or tables.pooling:
        name = tables.names[several[0]] if len(several) else tables.names[0]
        raise InputError(
            "hybrid embedding is for one lookup per feature",
            key=key,
            given=f"table {name}",
            expected="tables of pooling factor 1",
        )
    if len(plan.row_wise) or len(plan.nodes):
        by_rows = tables.names[np.concatenate([plan.row_wise, plan.nodes.table])[0]]
        raise InputError(
            "hybrid embedding is for tables with whole rows",
            key=key,
            given=f"table {by_rows} is cut by rows",
            expected="table_wise, column_wise or table_column_wise tables, and copies",
        )
    if np.any(plan.storage.kernel[columns] != FUSED):
        raise InputError(
            "hybrid embedding is for tables in device memory", key=key, expected="compute_kernels: [fused]"
        )
