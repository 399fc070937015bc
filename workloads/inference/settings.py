"""Settings of servers of a DLRM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workloads.dlrm.laws.index_laws import UNIFORM_LAW, Law
from workloads.dlrm.model.choices import PrecisionChoice, TablePrecision
from workloads.dlrm.model.settings import DlrmSettings
from workloads.graded import Graded
from workloads.graph.choices import FloatPrecision
from workloads.graph.framework import CudaGraph, Framework

HOST_ROW_S = 250e-9
"""Time in which a thread of the host finds a row in host memory and copies it, seconds: two accesses to memory that
depend on each other (bucket of the hash table, row) of 100 ns each, and 512 bytes at 10 GB/s (assumed)."""

SSD_ROW_S = 5e-6
"""Time of a thread of the host for a row that it reads from SSDs, seconds: RocksDB's point lookups, 200,000 a second
and core (its benchmarks of random reads, recalled)."""

SSD_READ_S = 100e-6
"""Time from the request of a page to its arrival from an SSD, seconds (NVMe flash, random reads, data sheets,
recalled); reads of a batch are in flight together."""


@dataclass(frozen=True, slots=True)
class InferenceSettings:
    """Servers of a model and a batch of each.

    Attributes:
        servers: ranks, each with a copy of the model.
        local_servers: servers of a node, which share its host memory and SSDs.
        batch: samples of a batch of each server.
        most: most samples of a batch: buffers have room for them, and laws of repeated rows refer to them.
        dense: arithmetic of the dense layers.
        tables: weights of tables.
        indices: law of row lookups in tables that have none of their own.
        gpu_cache: fraction of each table's rows that a server's cache holds; None: servers on CPUs have none.
        host_memory: fraction of each table's rows that the node's host memory holds.
        host_threads: threads of the host that find rows for a server.
        host_row_s: time of a thread for a row in host memory, seconds.
        ssd_row_s: time of a thread for a row on SSDs, seconds.
        more_rows: standard deviations by which rows from host memory, and rows from SSDs, exceed their means.
    """

    servers: int
    local_servers: int
    batch: int
    most: int
    framework: Framework
    dense: FloatPrecision = "fp32"
    tables: TablePrecision = "fp32"
    indices: Law = UNIFORM_LAW
    gpu_cache: float | None = 0.2
    host_memory: float = 1.0
    host_threads: int = 1
    host_row_s: float = HOST_ROW_S
    ssd_row_s: float = SSD_ROW_S
    cuda_graph: CudaGraph = "none"
    more_rows: tuple[float, float] = (0.0, 0.0)

    @property
    def on_host(self) -> bool:
        """Whether servers compute on CPUs."""
        return self.gpu_cache is None

    def dlrm(self, samples: int) -> DlrmSettings:
        """Settings of one rank with the whole model, and ``samples`` samples in a pass.

        Weights are cast once, before anything is served.
        """
        half = self.dense in ("fp16", "bf16", "fp8")
        kept = Graded[Literal["cast", "kept"]](value="kept", source="weights of a served model stay", grade="derived")
        return DlrmSettings(
            world_size=1,
            local_world_size=1,
            global_batch_size=samples,
            framework=self.framework.model_copy(update={"half_weights": kept}),
            precision=PrecisionChoice(
                dense=self.dense,
                tables=self.tables,
                forward_all_to_all="fp16" if half else "fp32",
                backward_all_to_all="fp32",
            ),
            indices=self.indices,
            cuda_graph=self.cuda_graph,
            on_host=self.on_host,
            measured_host=False,
            embedding_update="race_free" if self.on_host else "fused",
        )
