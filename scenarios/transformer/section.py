"""Keys of a scenario that trains a transformer, beside those of all workloads (`scenarios.types`)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from inputs.model import Strict
from scenarios.types import KIND, PRECISION, WORKLOAD, BatchSize, Scenario, Section
from simulator.precisions import SumPrecision
from workloads.graph.choices import FloatPrecision, OptimizerChoice, Precision
from workloads.graph.optimizers import DenseOptimizerKind
from workloads.transformer.compression import CompressedFormat
from workloads.transformer.settings import AttentionChoice, ContextExchange, Recompute, Sharding

Count: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]


class TransformerPrecision(Precision):
    """Number formats."""

    dense: FloatPrecision = Field(
        "bf16", description="arithmetic and activations; fp8: of linear layers, whose inputs are cast from bf16"
    )
    state: SumPrecision = Field("fp32", description="weights that the optimizer updates, and its state")


class TransformerOptimizer(OptimizerChoice):
    """Optimizer."""

    dense: DenseOptimizerKind = Field("adam", description="optimizer of all parameters")


class ParallelChoice(Strict):
    """Groups of ranks, and what each divides."""

    data: Count | None = Field(None, description="groups of ranks with sequences of their own (default: what is left)")
    tensor: Count = Field(1, description="ranks that share every matrix")
    pipeline: Count = Field(1, description="stages that share the layers, with 1F1B")
    context: Count = Field(1, description="ranks that share every sequence")
    virtual_stages: Count = Field(1, description="parts of a stage, which interleave")
    sharding: Sharding = Field(
        "none",
        description="what data-parallel ranks divide: none (DDP); optimizer (ZeRO 1): its state; fsdp: weights, "
        "gradients and state; hybrid: the same within groups of shard_size ranks",
    )
    shard_size: Count | None = Field(
        None, description="ranks of a group of hybrid sharding (default: those of a node that share a gradient's sum)"
    )
    prefetch: Annotated[int, Field(ge=0, le=1000)] = Field(
        1, description="layers whose weights FSDP gathers ahead of the one that computes"
    )
    reshard: bool = Field(
        True, description="whether FSDP frees weights after the forward pass; in a pipeline they stay until the end"
    )
    sequence_parallel: bool = Field(
        True, description="whether ranks of a tensor group divide the tokens between its matrices"
    )
    overlap_tensor: bool = Field(
        False, description="whether exchanges of a tensor group are hidden behind its products, part by part"
    )
    context_exchange: ContextExchange = Field(
        "all_gather", description="keys and values between ranks of a sequence: all_gather before attention, or ring"
    )


class TensorCompressionChoice(Strict):
    """Compression of the tensors of one direction."""

    format: CompressedFormat = Field(
        "topk",
        description="topk: the largest elements with an index of 4 bytes each; quantize: all of them in fewer bits",
    )
    ratio: Annotated[float, Field(ge=1, le=1e6)] = Field(
        description="topk: elements for each one that is sent; quantize: bits of an element for each one that is sent"
    )
    reads: Annotated[float, Field(ge=1, le=100)] | None = Field(
        None, description="times that the sender reads the tensor (default: topk bytes of an element + 1, quantize 2)"
    )


class CompressionChoice(Strict):
    """Compression of messages between pipeline stages."""

    activations: TensorCompressionChoice | None = Field(None, description="of messages to the next stage")
    gradients: TensorCompressionChoice | None = Field(
        None,
        description="of messages back to the stage before (gradients of activations; sums over ranks stay as they are)",
    )
    where: Literal["between_sites", "everywhere"] = Field(
        "between_sites", description="which messages: between sites, or between all stages"
    )
    ratios: Literal["fixed", "adatopk"] = Field(
        "fixed",
        description="fixed: all have the ratio; adatopk: the slowest link has it, others as much of it as their share "
        "of its time, at least 1",
    )


class TransformerSection(Section):
    """The trained transformer, its batch, and the groups of ranks that train it."""

    kind: Literal["transformer"] = Field(description=KIND)
    optimizer: TransformerOptimizer = Field(default_factory=TransformerOptimizer, description="optimizers")
    global_batch_size: BatchSize | None = Field(
        None, description="tokens per iteration over all ranks, instead of sequences"
    )
    sequences: BatchSize | None = Field(
        None, description="sequences per iteration over all ranks (default: one micro-batch a stage and data group)"
    )
    sequence: Count | None = Field(None, description="tokens of a sequence (default: the model's)")
    micro_batch_size: Count = Field(1, description="sequences of a micro-batch of each data group")
    parallel: ParallelChoice = Field(default_factory=ParallelChoice, description="groups of ranks")
    recompute: Recompute = Field(
        "none",
        description="forward work that the backward pass repeats: none; selective: attention, which only helps where "
        "it is unfused; operators: every second product and what is between them; alternate: every second layer; full",
    )
    compression: CompressionChoice | None = Field(
        None,
        description="compression of messages between pipeline stages: {activations: {format, ratio, reads}, "
        "gradients: {format, ratio, reads}, where: between_sites or everywhere, ratios: fixed or adatopk} (default: "
        "none)",
    )
    compiled: bool = Field(False, description="whether chains of element-wise operators are one kernel each")
    attention: AttentionChoice = Field(
        "flash2", description="kernel of attention: flash2, flash3, cudnn; unfused: kernels that write the scores"
    )

    def training_ranks(self, world_size: int) -> int:
        """Groups of ranks that have sequences of their own."""
        sizes = self.parallel
        return max(world_size // (sizes.tensor * sizes.pipeline * sizes.context), 1)


class TransformerScenario(Scenario):
    """One training job of a transformer on one cluster."""

    workload: TransformerSection = Field(description=WORKLOAD)
    precision: TransformerPrecision = Field(default_factory=TransformerPrecision, description=PRECISION)
