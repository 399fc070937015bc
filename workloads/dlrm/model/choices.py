"""Choices of a job that a scenario file makes and a generator takes as they are."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from inputs.model import Strict
from inputs.quantities import Quantity
from simulator.precisions import WirePrecision
from workloads.graph.choices import FloatPrecision, OptimizerChoice, Precision
from workloads.graph.levels import LevelStrategies
from workloads.graph.optimizers import TableOptimizerKind

TablePrecision: TypeAlias = Literal["fp32", "fp16", "bf16"]
SocketUpdate: TypeAlias = Literal["race_free", "atomic", "reference"]
"""Ways in which sockets update rows (`simulator.compute.sockets`)."""
ExchangeCalls: TypeAlias = Literal["all_to_all", "scatter", "scatter_list"]
"""One all_to_all; or a scatter for each rank, of all its tables; or one for each table."""
Hosts: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]
Rate: TypeAlias = Annotated[float, Quantity("bytes_per_s", 1e3)]
"""Bytes per second; 1 kB/s is the rate of a modem of 1990."""
MAX_QUEUE_BATCHES = 64
"""The engine keeps as many iterations at hand."""


class PrecisionChoice(Precision):
    """Number formats, apart for each use."""

    dense: FloatPrecision = Field("tf32", description="arithmetic of the dense layers")
    tables: TablePrecision = Field("fp16", description="weights of the embedding tables")
    forward_all_to_all: WirePrecision = Field("fp16", description="pooled embeddings on the wire")
    backward_all_to_all: WirePrecision = Field("bf16", description="gradients of pooled embeddings on the wire")


SINGLE_PRECISION = PrecisionChoice(
    dense="fp32", tables="fp32", forward_all_to_all="fp32", backward_all_to_all="fp32", all_reduce="fp32"
)
"""PyTorch's own number format everywhere."""


class Optimizer(OptimizerChoice):
    """Optimizers of the dense parameters and of the embedding tables."""

    tables: TableOptimizerKind = Field(
        "rowwise_adagrad", description="optimizer fused into the backward pass of the embedding tables"
    )


class Overlap(Strict):
    """Operations that overlap within an iteration; a missing key means the framework's default."""

    exchange: bool | None = Field(None, description="pooled vectors and their gradients travel beside the bottom MLP")
    all_reduce: bool | None = Field(None, description="gradients are summed beside the backward pass, not after it")
    weight_gradients: bool | None = Field(
        None, description="weight gradients behind those of the inputs, beside the exchange that these start"
    )


USUAL_OVERLAP = Overlap(exchange=True, all_reduce=True, weight_gradients=False)
"""Overlap of PyTorch's autograd and DistributedDataParallel."""


class DenseStrategies(Strict):
    """Strategies of the dense layers by class, each within a node and between nodes."""

    bottom: LevelStrategies = Field(default_factory=LevelStrategies, description="layers before the interaction")
    top: LevelStrategies = Field(
        default_factory=LevelStrategies, description="layers behind the interaction, cross layers included"
    )

    @property
    def plain(self) -> bool:
        """Whether all dense layers are data-parallel."""
        return self.bottom.plain and self.top.plain


class HybridEmbedding(Strict):
    """Frequent rows of sharded tables on all ranks: by a threshold, or by HugeCTR's rule from the other keys."""

    count_threshold: Annotated[float, Field(ge=1e-6, le=1e15)] | None = Field(
        None, description="a row that a batch looks up more often is frequent"
    )
    all_to_all_bytes_per_s: Rate = Field(
        190e9, description="rate of the exchange (HugeCTR's MLPerf v2.0 configuration, as the next two)"
    )
    all_reduce_bytes_per_s: Rate = Field(130e9, description="rate of the sum")
    efficiency: Annotated[float, Field(ge=1e-6, le=1e6)] = Field(0.5, description="correction of their ratio")
    duplicate_probability: Annotated[float, Field(ge=1e-9, lt=1)] = Field(
        0.01, description="on one node: that a rank looks a frequent row up twice"
    )


class Ingestion(Strict):
    """Ingestion of batches into the memory of the nodes that train."""

    reader_hosts: Hosts = Field(description="hosts that read and decode for the whole job")
    cores_per_host: Hosts = Field(description="cores of each that decode")
    decode_bytes_per_s: Rate = Field(description="of a core, in bytes of the batch as the GPUs get it")
    nic_bytes_per_s: Rate | None = Field(None, description="what a reader host sends at most")
    queue_batches: Annotated[int, Field(ge=1, le=MAX_QUEUE_BATCHES)] = Field(
        2, description="batches of a rank that host memory has room for, those on their way included"
    )

    @property
    def bytes_per_s(self) -> float:
        """Rate that all reader hosts deliver, B/s: decoding, or their NICs where these are slower."""
        decoded = self.cores_per_host * self.decode_bytes_per_s
        return self.reader_hosts * (decoded if self.nic_bytes_per_s is None else min(decoded, self.nic_bytes_per_s))
