"""Settings of a DLRM job beside its model: ranks, batch, precisions, optimizers, framework, pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from inputs.errors import InputError
from simulator.operators import BYTES_PER_ELEMENT, Precision
from workloads.framework import Framework
from workloads.index_laws import UNIFORM_LAW, Law
from workloads.optimizers import DenseOptimizerKind, TableOptimizerKind
from workloads.storage import LOCKING_PIPELINES

Pipeline: TypeAlias = Literal["none", "sparse_dist"]

PIPELINES: dict[str, str] = {
    "none": "input copy, input_dist, forward, backward, optimizer of one batch after the other",
    "sparse_dist": "input_dist of batch i+1, input copy of batch i+2 beside batch i (TorchRec TrainPipelineSparseDist)",
}
"""Name -> description."""


@dataclass(frozen=True, slots=True)
class Precisions:
    """Element types; ``tables`` is the default of tables that state none."""

    dense: Precision = "fp32"
    tables: Precision = "fp32"
    forward_all_to_all: Precision = "fp32"
    backward_all_to_all: Precision = "fp32"
    all_reduce: Precision = "fp32"


@dataclass(frozen=True, slots=True)
class Optimizers:
    """Optimizers of dense and of embedding parameters."""

    dense: DenseOptimizerKind = "sgd"
    tables: TableOptimizerKind = "rowwise_adagrad"


@dataclass(frozen=True, slots=True)
class DlrmSettings:
    """What `workloads.dlrm.generate` needs beside the model and the plan.

    Attributes:
        world_size: ranks.
        local_world_size: ranks per node.
        global_batch_size: samples per iteration over all ranks, a multiple of ``world_size``.
        framework: the framework profile.
        precision: element types.
        optimizer: optimizers.
        pipeline: what overlaps between batches.
        indices: by which law rows are looked up in tables that have none of their own.
        seed: of what differs from rank to rank in a batch.
        cache_hit_rate: share of the distinct rows of a batch that software caches hold; None: as popularity says.

    Raises:
        InputError: the ranks do not divide the batch.
    """

    world_size: int
    local_world_size: int
    global_batch_size: int
    framework: Framework
    precision: Precisions = field(default_factory=Precisions)
    optimizer: Optimizers = field(default_factory=Optimizers)
    pipeline: Pipeline = "none"
    indices: Law = UNIFORM_LAW
    seed: int = 0
    cache_hit_rate: float | None = None

    def __post_init__(self) -> None:
        """Check that every rank gets the same batch."""
        if self.global_batch_size % self.world_size or self.global_batch_size <= 0:
            raise InputError(
                "the ranks must divide the batch",
                key="workload.global_batch_size",
                given=self.global_batch_size,
                expected=f"a multiple of the world_size {self.world_size}",
            )

    @property
    def local_batch_size(self) -> int:
        """Samples per rank and iteration."""
        return self.global_batch_size // self.world_size

    @property
    def locks_cache(self) -> bool:
        """Whether cache slots are locked for batches in flight."""
        return self.pipeline in LOCKING_PIPELINES

    @property
    def forward_bytes(self) -> int:
        """Size of an element of pooled vectors on the wire."""
        return BYTES_PER_ELEMENT[self.precision.forward_all_to_all]

    @property
    def backward_bytes(self) -> int:
        """Size of an element of pooled gradients on the wire."""
        return BYTES_PER_ELEMENT[self.precision.backward_all_to_all]

    @property
    def dense_bytes(self) -> int:
        """Size of an element of dense activations."""
        return BYTES_PER_ELEMENT[self.precision.dense]

    @property
    def index_bytes(self) -> int:
        """Size of an index."""
        return self.framework.index_bytes.value

    @property
    def length_bytes(self) -> int:
        """Size of a bag length."""
        return self.framework.length_bytes.value
