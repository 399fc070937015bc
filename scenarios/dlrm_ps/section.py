"""Keys of a scenario that trains a DLRM with parameter servers; `scenarios.types` has the keys of all workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from inputs.quantities import MAX_RANKS, Quantity
from scenarios.types import KIND, PRECISION, WORKLOAD, BatchSize, Scenario, Section
from simulator.precisions import WirePrecision
from workloads.dlrm.model.choices import Optimizer, PrecisionChoice, TablePrecision
from workloads.dlrm_ps.settings import DECODE_BYTES_PER_S, SYNC_EVERY, Placement
from workloads.graph.choices import FloatPrecision

BATCH_PER_THREAD = 200
"""Samples of a thread's batch where a scenario states none (Naumov et al. 2020, recalled: 100 to 200)."""

Servers: TypeAlias = Annotated[int, Field(ge=1, le=MAX_RANKS)]
SomeServers: TypeAlias = Annotated[int, Field(ge=0, le=MAX_RANKS)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]


class PsPrecision(PrecisionChoice):
    """Number formats."""

    dense: FloatPrecision = Field("fp32", description="arithmetic of the dense layers")
    tables: TablePrecision = Field("fp32", description="weights of the embedding tables")
    forward_all_to_all: WirePrecision = Field("fp32", description="pooled embeddings on the wire")
    backward_all_to_all: WirePrecision = Field("fp32", description="gradients of pooled embeddings on the wire")
    all_reduce: Literal["fp32"] = Field("fp32", description="dense parameters on the wire")


class PsSection(Section):
    """The trained model, its trainers and its servers."""

    kind: Literal["dlrm_ps"] = Field(description=KIND)
    framework: str | dict[str, Any] = Field("pytorch_cpu", description="framework profile: host times of operators")
    optimizer: Optimizer = Field(default_factory=Optimizer, description="optimizers")
    trainers: Servers | None = Field(None, description="ranks that train (default: those that are no servers)")
    sparse_servers: Servers = Field(1, description="ranks that serve embedding tables")
    dense_servers: SomeServers = Field(
        1, description="ranks with the dense parameters, which trainers exchange; 0 only with a trainer alone"
    )
    readers: SomeServers = Field(0, description="ranks that read and decode batches; 0: batches are always there")
    threads: Count = Field(24, description="Hogwild threads of a trainer, each with a batch of its own")
    batch_per_thread: Count | None = Field(
        None, description=f"samples of a thread's batch (default: {BATCH_PER_THREAD})"
    )
    global_batch_size: BatchSize | None = Field(
        None, description="samples of all threads of all trainers, instead of batch_per_thread"
    )
    sync_every: Count = Field(
        SYNC_EVERY, description="iterations from one exchange of a trainer's dense parameters (EASGD) to the next"
    )
    placement: Placement = Field(
        "bytes", description="amount that is spread evenly over the servers of tables: bytes or lookups"
    )
    decode_bytes_per_s: Annotated[float, Quantity("bytes_per_s", 1e3)] = Field(
        DECODE_BYTES_PER_S, description="bytes of a batch that a core of a reader decodes"
    )

    @property
    def servers(self) -> int:
        """Ranks that do not train."""
        return self.sparse_servers + self.dense_servers + self.readers

    def training_ranks(self, world_size: int) -> int:
        """Trainers; at least one, as a job without is refused."""
        return max(1, world_size - self.servers)

    def roles(self, world_size: int) -> Mapping[str, int]:
        """Trainers, servers of tables and of dense parameters, and readers."""
        servers = {"table servers": self.sparse_servers, "dense servers": self.dense_servers, "readers": self.readers}
        return {"trainers": self.training_ranks(world_size), **{name: n for name, n in servers.items() if n}}


class PsScenario(Scenario):
    """One training job of a DLRM with parameter servers."""

    workload: PsSection = Field(description=WORKLOAD)
    precision: PsPrecision = Field(default_factory=PsPrecision, description=PRECISION)
