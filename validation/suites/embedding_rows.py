"""Embedding kernels that others timed, as jobs of one rank: they go through the same workload as any scenario.

Columns of ``embedding_kernels.csv``: GPU, kind (lookup or update), precision, number, rows and columns of the tables,
bags per table, lookups per bag, distinct rows per table (empty: uniform indices), size of an index, optimizer, time.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

import numpy as np

from simulator.operators import EmbeddingLookup, EmbeddingUpdate
from simulator.precisions import BYTES_PER_ELEMENT
from workloads.dlrm.iteration.embeddings import embedding_groups
from workloads.dlrm.laws.index_laws import Indices, make_law
from workloads.dlrm.model.choices import SINGLE_PRECISION, Optimizer
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.plan import make_plan
from workloads.dlrm.sharding.shards import ColumnShards
from workloads.graded import Graded
from workloads.graph.framework import Framework, load_framework
from workloads.graph.optimizers import TableOptimizerKind

US = 1e-6


@dataclass(frozen=True, slots=True)
class EmbeddingRow:
    """A timed kernel."""

    gpu: str
    kind: Literal["lookup", "update"]
    operator: EmbeddingLookup | EmbeddingUpdate
    time_s: float
    source: str


def embedding_rows() -> list[EmbeddingRow]:
    """The rows that ship."""
    with files("validation").joinpath("embedding_kernels.csv").open(encoding="utf-8") as file:
        return [_row(row) for row in csv.DictReader(file)]


def _row(row: dict[str, str]) -> EmbeddingRow:
    kind: Literal["lookup", "update"] = "lookup" if row["kind"] == "lookup" else "update"
    return EmbeddingRow(row["gpu"], kind, _operator(row, kind), float(row["time_us"]) * US, row["source"])


def _operator(row: dict[str, str], kind: Literal["lookup", "update"]) -> EmbeddingLookup | EmbeddingUpdate:
    count, dim = int(row["tables"]), int(row["dim"])
    samples, pooling = int(row["samples"]), float(row["pooling"])
    law = Indices(distribution="uniform")
    if row["distinct"]:
        law = Indices(distribution="zipf", unique_ratio=float(row["distinct"]) / (samples * pooling))
    each = np.ones(count, dtype=np.int64)
    tables = Tables(
        names=tuple(f"table_{i}" for i in range(count)),
        rows=each * int(row["rows"]),
        dim=each * dim,
        pooling_factor=np.full(count, pooling),
        element_bytes=each * BYTES_PER_ELEMENT[row["precision"]],
        features=each,
    )
    optimizer: TableOptimizerKind = "adam" if row["optimizer"] == "adam" else "sgd"
    settings = DlrmSettings(
        world_size=1,
        local_world_size=1,
        global_batch_size=samples,
        framework=_framework(int(row["index_bytes"])),
        precision=SINGLE_PRECISION,
        optimizer=Optimizer(tables=optimizer),
        indices=make_law(law),
    )
    columns = ColumnShards(np.arange(count), np.zeros_like(each), np.zeros_like(each), tables.dim)
    group = embedding_groups(make_plan(tables, 1, 1, "all on one", columns=columns), settings)[0]
    return group.lookup if kind == "lookup" else group.update


def _framework(index_bytes: int) -> Framework:
    size = Graded[Literal[4, 8]](value=8 if index_bytes == 8 else 4, source="the row", grade="read")
    return load_framework("pytorch").model_copy(update={"index_bytes": size})
