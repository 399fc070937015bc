"""Settings of a transformer's training job, and the groups of ranks that they make."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import Literal, TypeAlias

import numpy as np

from inputs.errors import InputError
from simulator.precisions import BYTES_PER_ELEMENT, Precision, SumPrecision
from simulator.program import IntArray
from workloads.graph.divisors import nearest_divisor
from workloads.graph.optimizers import DenseOptimizerKind
from workloads.transformer.architecture import Transformer

Sharding: TypeAlias = Literal["none", "optimizer", "fsdp", "hybrid"]
"""Tensors that data-parallel ranks divide among them: none (DDP); optimizer state (ZeRO 1, Megatron's distributed
optimizer); weights, gradients and state (FSDP); the same within groups of ``shard_size`` ranks, which are replicated
(FSDP's hybrid sharding)."""

Recompute: TypeAlias = Literal["none", "selective", "operators", "alternate", "full"]
"""Forward work that the backward pass repeats: nothing; scores and weighted sums of attention (Korthikanti et al.,
arXiv:2205.05198); every second matrix product and what is between products, but not attention (torchtitan's selection
by operator); all of every second layer; all."""

AttentionChoice: TypeAlias = Literal["flash2", "flash3", "cudnn", "unfused"]
"""Kernel of attention; unfused: products, and kernels on scores that are written."""

ContextExchange: TypeAlias = Literal["ring", "all_gather"]
"""Exchange of keys and values between ranks that share a sequence: passed around beside the attention of the parts that
are there, or gathered before it."""


@dataclass(frozen=True, slots=True)
class ParallelSizes:
    """Sizes of the groups of ranks; ranks of a tensor group follow each other, then context, data, pipeline.

    Attributes:
        data: ranks, or groups of them, with sequences of their own.
        tensor: ranks that share every matrix.
        context: ranks that share every sequence.
        pipeline: stages, each with some of the layers.
        virtual_stages: parts of a stage that are not next to each other in the network (interleaving).
        sharding: division of weights, gradients and state over data-parallel ranks.
        shard_size: ranks of a group of hybrid sharding.
        prefetch: layers of FSDP whose weights are gathered ahead of the layer that computes.
        reshard: whether FSDP frees the gathered weights after the forward pass; never with a pipeline.
        sequence_parallel: whether ranks of a tensor group divide the tokens between its matrices.
        overlap_tensor: whether exchanges of a tensor group are cut into parts, which products hide but for one.
        context_exchange: exchange of keys and values.
    """

    data: int = 1
    tensor: int = 1
    context: int = 1
    pipeline: int = 1
    virtual_stages: int = 1
    sharding: Sharding = "none"
    shard_size: int = 1
    prefetch: int = 1
    reshard: bool = True
    sequence_parallel: bool = True
    overlap_tensor: bool = False
    context_exchange: ContextExchange = "all_gather"

    @property
    def world_size(self) -> int:
        """Ranks of the job."""
        return self.data * self.replica

    @property
    def replica(self) -> int:
        """Ranks that hold one copy of the weights."""
        return self.tensor * self.context * self.pipeline

    @property
    def stage_ranks(self) -> int:
        """Ranks of a stage."""
        return self.data * self.tensor * self.context

    @property
    def reducing(self) -> int:
        """Ranks that sum the gradients of a parameter: those with sequences, or parts of sequences, of their own."""
        return self.data * self.context

    @property
    def shards(self) -> int:
        """Parts into which the optimizer's state of a parameter is divided."""
        if self.sharding == "none":
            return 1
        return self.shard_size if self.sharding == "hybrid" else self.reducing

    @property
    def gathers(self) -> bool:
        """Whether weights are gathered before they are used (FSDP)."""
        return self.sharding in ("fsdp", "hybrid")

    @property
    def reshards(self) -> bool:
        """Whether weights are gathered again for the backward pass."""
        return self.gathers and self.reshard and self.pipeline == 1

    def stage(self, number: int) -> IntArray:
        """Ranks of a stage, ascending."""
        return np.arange(self.stage_ranks, dtype=np.int64) + number * self.stage_ranks

    def communicators(self) -> dict[str, IntArray]:
        """Instances of each group with more than one member, by name ``[world_size]``."""
        rank = np.arange(self.world_size, dtype=np.int64)
        of_tensor, of_context = rank % self.tensor, rank // self.tensor % self.context
        replica, stage = rank // (self.tensor * self.context), rank // self.stage_ranks
        place = of_context + replica % self.data * self.context  # among the ranks that sum a gradient
        found: dict[str, IntArray] = {}
        if self.tensor > 1:
            found["tensor"] = rank // self.tensor
        if self.context > 1:
            found["context"] = replica * self.tensor + of_tensor
        if self.reducing > 1:
            columns = stage * self.tensor + of_tensor
            if self.sharding == "hybrid":
                groups = self.reducing // self.shard_size
                found["shard"] = columns * groups + place // self.shard_size
                if groups > 1:
                    found["replicate"] = columns * self.shard_size + place % self.shard_size
            else:
                found["data"] = columns
        return {name: instance for name, instance in found.items() if len(np.unique(instance)) < len(instance)}


@dataclass(frozen=True, slots=True)
class TransformerSettings:
    """A job of a transformer.

    Attributes:
        sequence: tokens of a sequence.
        micro_batch: sequences of a micro-batch, on the ranks that share one.
        microbatches: micro-batches of an iteration on each of them.
        sizes: groups of ranks.
        recompute: forward work that the backward pass repeats.
        compiled: whether chains of element-wise operators are one kernel each.
        attention: kernel of attention.
        precision: arithmetic of linear layers; fp8: all else is in bf16, and their inputs are cast.
        reduced: number format in which gradients are summed.
        state: number format of the weights that the optimizer updates, and of its state.
        optimizer: optimizer of all parameters.
        first_bucket_bytes: size of DDP's first bucket; ``bucket_bytes``: of the others.
        operator_s: host time of an operator beside its launch, seconds.
        iteration_s: time of an iteration in which the device waits for the host, seconds.
        optimizer_kernels: launches of an update.
        reserve_bytes: device memory that the framework takes beside tensors.

    Raises:
        InputError: sizes contradict each other or the model.
    """

    model: Transformer
    sequence: int
    micro_batch: int = 1
    microbatches: int = 1
    sizes: ParallelSizes = field(default_factory=ParallelSizes)
    recompute: Recompute = "none"
    compiled: bool = False
    attention: AttentionChoice = "flash2"
    precision: Precision = "bf16"
    reduced: SumPrecision = "fp32"
    state: SumPrecision = "fp32"
    optimizer: DenseOptimizerKind = "adam"
    first_bucket_bytes: float = 2.0**20
    bucket_bytes: float = 25 * 2.0**20
    operator_s: float = 0.0
    iteration_s: float = 0.0
    optimizer_kernels: int = 4
    reserve_bytes: float = 0.0

    def __post_init__(self) -> None:
        """Check sizes against each other and the model."""
        model, sizes = self.model, self.sizes
        if model.positions == "learned" and self.sequence > model.sequence:
            message, expected = f"{model.name} has {model.sequence} places", f"at most {model.sequence}"
            raise InputError(message, key="workload.sequence", given=self.sequence, expected=expected)
        if self.flash and self.element_bytes > BYTES_PER_ELEMENT["bf16"]:
            message = f"kernels that never write the scores compute in 16 bits, and precision.dense is {self.precision}"
            raise InputError(message, key="workload.attention", given=self.attention, expected="unfused")
        widths = {"heads": model.heads, "kv_heads": model.kv_heads or model.heads, "ffn": model.ffn}
        _divides("tensor", sizes.tensor, widths)
        _divides("context", sizes.context, {"sequence": self.sequence})
        chunks = sizes.pipeline * sizes.virtual_stages
        if chunks > model.layers:
            key = "pipeline" if sizes.virtual_stages == 1 else "virtual_stages"
            most = model.layers if sizes.virtual_stages == 1 else model.layers // sizes.pipeline
            raise _wrong(key, f"more stages than the {model.layers} layers", getattr(sizes, key), f"at most {most}")
        if sizes.virtual_stages > 1 and sizes.pipeline == 1:
            raise _wrong("virtual_stages", "there is no pipeline to interleave", sizes.virtual_stages, "1")
        if self.microbatches < sizes.pipeline:
            raise _wrong(
                "pipeline",
                f"more stages than the {self.microbatches} micro-batches of an iteration",
                sizes.pipeline,
                f"at most {self.microbatches}, more sequences or a smaller micro_batch_size",
            )
        if sizes.virtual_stages > 1 and self.microbatches % sizes.pipeline:
            raise _wrong(
                "virtual_stages",
                f"interleaving takes micro-batches in groups of {sizes.pipeline}, and there are {self.microbatches}",
                sizes.virtual_stages,
                f"a multiple of {sizes.pipeline} micro-batches, or 1",
            )
        if sizes.sharding == "hybrid" and sizes.reducing % sizes.shard_size:
            raise _wrong(
                "shard_size",
                f"groups do not divide the {sizes.reducing} ranks that sum a gradient",
                sizes.shard_size,
                f"a divisor of {sizes.reducing}",
                nearest_divisor(sizes.shard_size, sizes.reducing),
            )

    @property
    def flash(self) -> bool:
        """Whether attention never writes its scores."""
        return self.attention != "unfused"

    def repeats(self, layer: int) -> bool:
        """Whether the backward pass repeats all of a layer's forward pass."""
        return self.recompute == "full" or (self.recompute == "alternate" and layer % 2 == 0)

    @property
    def element_bytes(self) -> int:
        """Size of an element of activations and of the weights that compute."""
        return BYTES_PER_ELEMENT[self.tensors]

    @property
    def tensors(self) -> Precision:
        """Number format of activations and of products other than linear layers'."""
        return "bf16" if self.precision == "fp8" else self.precision

    @property
    def gathered_bytes(self) -> int:
        """Size of an element of the inputs of linear layers that a tensor group gathers."""
        return BYTES_PER_ELEMENT[self.precision]

    @property
    def state_bytes(self) -> int:
        """Size of an element of the weights that the optimizer updates, and of its state."""
        return BYTES_PER_ELEMENT[self.state]

    @property
    def reduced_bytes(self) -> int:
        """Size of an element of a gradient on the wire."""
        return BYTES_PER_ELEMENT[self.reduced]

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch on a rank."""
        return self.micro_batch * self.sequence // self.sizes.context

    @property
    def own_tokens(self) -> int:
        """Tokens of a micro-batch that a rank holds between the matrices of a tensor group."""
        tensor = self.sizes.tensor
        return -(-self.tokens // tensor) if self.sizes.sequence_parallel else self.tokens

    @property
    def tokens_per_iteration(self) -> int:
        """Tokens over all ranks."""
        return self.micro_batch * self.sequence * self.microbatches * self.sizes.data


def _divides(key: str, size: int, of: dict[str, int]) -> None:
    """Check that a size divides others."""
    for name, whole in of.items():
        if whole % size:
            near = nearest_divisor(size, gcd(*of.values()))
            raise _wrong(key, f"does not divide {name}={whole}", size, f"a divisor of {whole}", near)


def _wrong(key: str, message: str, given: int, expected: str, nearest: int | None = None) -> InputError:
    near = None if nearest is None else str(nearest)
    return InputError(message, key=f"workload.parallel.{key}", given=given, expected=expected, nearest=near)
