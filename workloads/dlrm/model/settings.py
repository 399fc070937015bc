"""Settings of a DLRM job beside its model: ranks, batch, precisions, optimizers, framework, pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field

from inputs.errors import InputError
from simulator.operators import UpdateVariant
from simulator.precisions import BYTES_PER_ELEMENT, QUANTISED, WIRE_BYTES, WirePrecision
from workloads.dlrm.laws.index_laws import UNIFORM_LAW, Law
from workloads.dlrm.model.choices import (
    SINGLE_PRECISION,
    USUAL_OVERLAP,
    DenseStrategies,
    ExchangeCalls,
    HybridEmbedding,
    Ingestion,
    Optimizer,
    Overlap,
    PrecisionChoice,
)
from workloads.dlrm.model.sequence_batches import Batching, Dealing
from workloads.dlrm.model.storage import LOCKING_PIPELINES
from workloads.graph.choices import Progress, largest_share
from workloads.graph.framework import CudaGraph, Framework, Pipeline


def _unquantised(precision: WirePrecision) -> float:
    """Size of an element before quantisation, bytes."""
    return WIRE_BYTES["fp32" if precision in QUANTISED else precision]


@dataclass(frozen=True, slots=True)
class DlrmSettings:
    """Inputs of `workloads.dlrm.iteration.generate.generate` beside the model and the plan.

    Attributes:
        local_world_size: ranks per node.
        global_batch_size: samples per pass over all ranks, of the largest pass; an iteration has
            ``gradient_accumulation`` passes.
        pipeline: overlap between batches.
        indices: law of row lookups in tables that have none of their own.
        seed: seed of the differences between ranks in a batch.
        cache_hit_rate: share of the distinct rows of a batch that software caches hold; None: as popularity says.
        gradient_accumulation: passes per iteration, whose dense gradients are added up.
        overlaps: operations that overlap within an iteration, nothing left to the framework.
        cuda_graph: scope of one launch: each kernel by itself; the dense part, between collectives and embedding
            kernels; the whole iteration, whose exchanges then have sizes known beforehand.
        hybrid: rows of sharded tables that all ranks have; None: no such rows.
        ingestion: reading of batches; None: they are always there.
        on_host: ranks compute on CPUs: a kernel runs on the host thread when its turn comes; only collectives are
            beside it.
        measured_host: the costs of those CPUs were measured, with all that a framework adds; else its factors apply.
        embedding_update: way in which rows are updated.
        exchange: calls that bring pooled vectors to the ranks of their samples.
        progress: place in which collectives advance: beside the computing, or only while the host waits for them, in
            order.
        threads: number of threads of a rank that computes on CPUs.
        collective_threads: number of threads that run the collectives of a process group, one collective each.
        copied: operations whose call copies its input before it issues the collective.
        iteration_samples: samples per iteration over all ranks; None: the samples of equal passes.
        dense: strategies of the dense layers.
        batching: how samples of sequences are dealt to ranks.
        padded: whether HSTU layers run over sequences padded to the longest one of a rank.
        evaluates: whether an iteration is a forward pass only.
        index_dedup: whether a rank asks for a row of a sequence's table once, however often its batch has it.

    Raises:
        InputError: a rank has no sample.
    """

    world_size: int
    local_world_size: int
    global_batch_size: int
    framework: Framework
    precision: PrecisionChoice = SINGLE_PRECISION
    optimizer: Optimizer = field(default_factory=Optimizer)
    pipeline: Pipeline = "none"
    indices: Law = UNIFORM_LAW
    seed: int = 0
    cache_hit_rate: float | None = None
    gradient_accumulation: int = 1
    overlaps: Overlap = USUAL_OVERLAP
    cuda_graph: CudaGraph = "none"
    hybrid: HybridEmbedding | None = None
    ingestion: Ingestion | None = None
    on_host: bool = False
    measured_host: bool = True
    embedding_update: UpdateVariant = "fused"
    exchange: ExchangeCalls = "all_to_all"
    progress: Progress = "beside"
    threads: int = 1
    collective_threads: int = 1
    copied: frozenset[str] = frozenset()
    iteration_samples: int | None = None
    dense: DenseStrategies = field(default_factory=DenseStrategies)
    batching: Batching = "random"
    padded: bool = False
    evaluates: bool = False
    index_dedup: bool = False

    def __post_init__(self) -> None:
        """Check that every rank has a sample."""
        if self.global_batch_size < self.world_size:
            raise InputError(
                f"a batch with fewer samples than the {self.world_size} ranks",
                key="workload.global_batch_size",
                given=self.global_batch_size,
                expected=f"{self.world_size} or more",
            )

    @property
    def local_batch_size(self) -> int:
        """Samples of a pass on the rank with most samples, which the other ranks wait for."""
        return largest_share(self.global_batch_size, self.world_size)

    @property
    def dealing(self) -> Dealing:
        """Dealing of samples of sequences to ranks."""
        return Dealing(self.global_batch_size, self.world_size, self.seed, self.batching)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.world_size // self.local_world_size

    @property
    def exchanged_samples(self) -> int:
        """Samples over all ranks for sizes of exchanges: every rank receives as many as the rank with most samples."""
        return self.local_batch_size * self.world_size

    @property
    def locks_cache(self) -> bool:
        """Whether cache slots are locked for batches in flight."""
        return self.pipeline in LOCKING_PIPELINES

    @property
    def forward_bytes(self) -> float:
        """Size of an element of pooled vectors on the wire."""
        return WIRE_BYTES[self.precision.forward_all_to_all]

    @property
    def backward_bytes(self) -> float:
        """Size of an element of pooled gradients on the wire."""
        return WIRE_BYTES[self.precision.backward_all_to_all]

    @property
    def summed_forward(self) -> WirePrecision:
        """Type of partial sums in a reduce_scatter: fp16 if pooled vectors are quantised.

        TorchRec has the same fallback (fbgemm_qcomm_codec.py).
        """
        chosen = self.precision.forward_all_to_all
        return "fp16" if chosen in QUANTISED else chosen

    @property
    def gathered_backward(self) -> WirePrecision:
        """Type of gradients in an all_gather: bf16 if gradients are quantised."""
        chosen = self.precision.backward_all_to_all
        return "bf16" if chosen in QUANTISED else chosen

    def lookup_bytes(self, *, summed: bool) -> float:
        """Size of an element that a lookup writes, bytes: its size on the wire, or fp32 if it is quantised later.

        Args:
            summed: whether the vectors are partial sums of a table that is cut by rows.
        """
        return WIRE_BYTES[self.summed_forward] if summed else _unquantised(self.precision.forward_all_to_all)

    def gradient_bytes(self, *, gathered: bool) -> float:
        """Size of an element of the gradients that an update reads, bytes; fp32 after quantised exchanges."""
        return WIRE_BYTES[self.gathered_backward] if gathered else _unquantised(self.precision.backward_all_to_all)

    @property
    def dense_bytes(self) -> int:
        """Size of an element of dense activations: 16 bits around GEMMs in fp8, whose results are not fp8."""
        return max(BYTES_PER_ELEMENT[self.precision.dense], 2)

    @property
    def index_bytes(self) -> int:
        """Size of an index."""
        return self.framework.index_bytes.value

    @property
    def length_bytes(self) -> int:
        """Size of a bag length."""
        return self.framework.length_bytes.value
