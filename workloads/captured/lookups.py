"""Amounts of recorded lookups and updates, counted as the kernels of a DLRM's tables (`workloads.dlrm.rows`).

A recording has the number of indices of a batch, not the indices: which rows they look up follows from a law.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from simulator.operators import EmbeddingLookup, EmbeddingUpdate, FloatArray, Misses
from workloads.captured.records import DType, Lookup, Optimized, Table, Update
from workloads.captured.settings import CapturedSettings
from workloads.dlrm.model.choices import SINGLE_PRECISION, Optimizer
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.storage import uniform_storage
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.kernels import Kernels, KernelShards, dense_gradient, kernels
from workloads.dlrm.rows.traffic import sort_bytes

ELEMENT_BYTES: dict[DType, int] = {
    "fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "bool": 1,
}  # fmt: skip
"""Size of an element of a tensor."""

COUNTED_BYTES = ELEMENT_BYTES["fp32"]
"""Size of an element of vectors and gradients of `SINGLE_PRECISION`, with which amounts are counted first."""

_ADDED = ("lookups", "row_bytes", "output_bytes", "tables")
_ADDED_UPDATE = (
    "lookups", "unique_rows", "gradient_bytes", "weight_bytes", "state_bytes", "tables", "repeated_gradient_bytes",
    "padding_bytes",
)  # fmt: skip
"""Amounts of a kernel that are sums over its tables."""


def lookup_kernel(work: Lookup, settings: CapturedSettings) -> EmbeddingLookup:
    """The lookup of all tables of a work in one kernel."""
    found = [made.lookup for made in _counted(work.tables, work.dtype, settings)]
    if not found:
        return EmbeddingLookup(0.0, 0.0, 0.0, 0.0, 0.0)
    summed: dict[str, Any] = {name: _sum([getattr(each, name) for each in found]) for name in _ADDED}
    of_all = replace(found[0], **summed)
    scale = ELEMENT_BYTES[work.output_dtype] / COUNTED_BYTES
    offsets = settings.framework.length_bytes.value * sum(table.bags for table in work.tables)
    return replace(
        of_all,
        output_bytes=of_all.output_bytes * scale,
        index_bytes=float(_lookups(work.tables) * work.index_bytes + offsets),
        missed=_joined([each.missed for each in found if each.missed is not None]),
    )


def update_kernel(work: Update, settings: CapturedSettings) -> EmbeddingUpdate:
    """The update of all tables of a work in one kernel, or the gradients of their rows."""
    found = [made.update for made in _counted(work.tables, work.dtype, settings, work.optimizer)]
    if not found:
        return EmbeddingUpdate(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    summed: dict[str, Any] = {name: _sum([getattr(each, name) for each in found]) for name in _ADDED_UPDATE}
    scale = ELEMENT_BYTES[work.gradient_dtype] / COUNTED_BYTES
    rows = np.array([float(sum(table.rows for table in work.tables))])
    pooled = sum(table.bags * table.dim for table in work.tables) * ELEMENT_BYTES[work.gradient_dtype]
    of_all = replace(
        found[0],
        **summed,
        sort_bytes=float(sort_bytes(np.array([float(_lookups(work.tables))]), rows, work.index_bytes)[0]),
        gradient_block_bytes=pooled / max(summed["tables"], 1.0),
    )
    of_all = replace(
        of_all,
        gradient_bytes=of_all.gradient_bytes * scale,
        repeated_gradient_bytes=of_all.repeated_gradient_bytes * scale,
    )
    return of_all if work.optimizer is not None else _gradient(of_all, work)


def _gradient(update: EmbeddingUpdate, work: Update) -> EmbeddingUpdate:
    """A kernel that writes gradients: of all rows, which are set to zero first, or of the rows that are looked up."""
    if work.dense:
        element = ELEMENT_BYTES[work.dtype]
        return dense_gradient(update, float(sum(table.rows * table.dim * element for table in work.tables)))
    return replace(
        update,
        weight_bytes=update.weight_bytes / 2.0,
        state_bytes=0.0,
        padding_bytes=update.padding_bytes / 2.0,
    )


def _lookups(tables: Sequence[Table]) -> int:
    return sum(table.lookups for table in tables)


def _counted(
    tables: Sequence[Table], dtype: DType, settings: CapturedSettings, optimizer: Optimized | None = None
) -> Iterator[Kernels]:
    """Kernels of the tables with equal numbers of bags, in fp32 but for the weights."""
    for bags in dict.fromkeys(table.bags for table in tables if table.bags):
        own = [table for table in tables if table.bags == bags]
        yield _kernels(own, bags, ELEMENT_BYTES[dtype], settings, optimizer)


def _kernels(
    tables: Sequence[Table], bags: int, element: int, settings: CapturedSettings, optimizer: Optimized | None
) -> Kernels:
    count = len(tables)
    of = Tables(
        names=tuple(f"table_{number}" for number in range(count)),
        rows=np.array([table.rows for table in tables], dtype=np.int64),
        dim=np.array([table.dim for table in tables], dtype=np.int64),
        pooling_factor=np.array([table.lookups / bags for table in tables]),
        element_bytes=np.full(count, element, dtype=np.int64),
        features=np.ones(count, dtype=np.int64),
    )
    own = DlrmSettings(
        world_size=1,
        local_world_size=1,
        global_batch_size=max(settings.global_batch_size, bags),
        framework=settings.framework,
        precision=SINGLE_PRECISION,
        optimizer=Optimizer(tables=optimizer or "sgd"),
        indices=settings.law,
    )
    shards = KernelShards(np.arange(count), of.dim, float(bags), 1, _on_rank, _on_rank, _on_rank, _on_rank)
    return kernels(of, own, shards, uniform_storage(count))


def _on_rank(values: FloatArray) -> FloatArray:
    """The sum over tables on the only rank ``[1]``."""
    return np.array([float(np.sum(values))])


def _sum(amounts: Sequence[float]) -> float:
    return float(sum(float(np.sum(each)) for each in amounts))


def _joined(parts: Sequence[Misses]) -> Misses | None:
    """Rows of several groups of tables that memory delivers, by the size of the cache."""
    if not parts:
        return None
    return Misses(parts[0].cache_bytes, np.sum([part.bytes for part in parts], axis=0))
