"""Keys of a scenario that trains a convolutional network, beside those of all workloads (`scenarios.types`)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from inputs.quantities import Quantity
from scenarios.types import KIND, PRECISION, WORKLOAD, BatchSize, Scenario, Section
from workloads.convnet.block_plan import Weights
from workloads.convnet.settings import Images, Strategy
from workloads.graph.choices import Precision
from workloads.graph.pipeline_schedule import PipelineOrder

OutOfCoreMode: TypeAlias = Literal["none", "swap", "recompute", "checkpoint", "karma"]

IMAGES_PER_RANK = 64
"""Batch of a rank where a scenario states none (tf_cnn_benchmarks' own for resnet50)."""

Count: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]


class ConvnetPrecision(Precision):
    """Number formats."""

    dense: Literal["fp32", "tf32", "fp16", "bf16"] = Field(
        "fp32", description="activations, their gradients, and arithmetic"
    )
    all_reduce: Literal["fp32"] = Field("fp32", description="gradients of weights on the wire")


class ConvnetSection(Section):
    """The trained network, and the exchange of its gradients."""

    kind: Literal["convnet"] = Field(description=KIND)
    framework: str | dict[str, Any] = Field("tensorflow", description="framework profile: host times, memory")
    strategy: Strategy = Field("horovod_nccl", description="exchange of gradients")
    global_batch_size: BatchSize | None = Field(
        None, description="images per iteration over all ranks, instead of images_per_rank"
    )
    images_per_rank: Count | None = Field(
        None,
        description=f"images per iteration of each rank; with partitions, of each replica (default: {IMAGES_PER_RANK})",
    )
    classes: Count = Field(1001, description="outputs of the network; tf_cnn_benchmarks counts the background")
    image_size: Count | None = Field(
        None, description="pixels on each side of an image (default: the image size of the network's own data set)"
    )
    images: Images = Field(
        "synthetic", description="synthetic: made once on the GPU; from_host: copied in every iteration"
    )
    fusion_bytes: Annotated[float, Quantity("bytes", 1.0, 1e15)] | None = Field(
        None, description="size of Horovod's buffer, in which tensors are summed together (default: 64 MiB)"
    )
    cycle_time: Annotated[float, Quantity("s", 0.0, 3600.0)] | None = Field(
        None, description="time between two looks of Horovod at what is ready (default: 5 ms)"
    )
    server_threads: Count | None = Field(
        None,
        description="threads of a server that handle gRPC's calls (default: 8; 1 in TensorFlow before 2018)",
    )
    servers: Count | None = Field(None, description="parameter servers, one on each of the first nodes (default: 1)")
    partitions: Count | None = Field(
        None,
        description="parts of the network, each on its own rank; the number of replicas is ranks / partitions "
        "(default: 1)",
    )
    layers_per_partition: Annotated[tuple[Count, ...], Field(min_length=1)] | None = Field(
        None, description="number of layers of each partition, in order (default: partitions with even predicted times)"
    )
    micro_batches: Count | None = Field(
        None,
        description="parts of a replica's images that pass each partition one after the other (default: the divisor "
        "of the images nearest to the number of partitions)",
    )
    schedule: PipelineOrder | None = Field(
        None,
        description="order of micro-batches: gpipe: all forward passes first; 1f1b: forward and backward passes "
        "alternate (default: gpipe)",
    )
    out_of_core: OutOfCoreMode | None = Field(
        None,
        description="tensors of a block of layers between its two passes: none (default): the tensors stay; swap: "
        "they go to host memory; recompute: they are computed again; checkpoint: recompute with about sqrt(n) blocks "
        "instead of the n smallest; karma: a decision for each block, planned by simulation",
    )
    out_of_core_plan: str | dict[str, Any] | None = Field(
        None, description="instead of out_of_core: a decision for each block, a file (YAML or JSON) or the plan itself"
    )
    weights: Weights | None = Field(
        None,
        description="keep (default): everything in device memory; swap: weights, gradients and optimizer state in "
        "host memory; a block's weights are copied for each of its passes, and the host updates them",
    )

    def training_ranks(self, world_size: int) -> int:
        """Number of replicas of the network; each replica has its own images."""
        return max(world_size // self.held_partitions, 1)

    @property
    def held_partitions(self) -> int:
        """Number of partitions of the network, by default 1."""
        return self.partitions or len(self.layers_per_partition or ()) or 1


class ConvnetScenario(Scenario):
    """One training job of a convolutional network on one cluster."""

    workload: ConvnetSection = Field(description=WORKLOAD)
    precision: ConvnetPrecision = Field(default_factory=ConvnetPrecision, description=PRECISION)
