"""Framework profiles: overheads of the training framework around the kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from inputs.model import Strict
from inputs.quantities import Quantity, RankCount
from inputs.validate import validate
from inputs.yaml_lines import Document, load_yaml
from workloads.catalogs import FRAMEWORKS
from workloads.graded import Graded
from workloads.graph.overheads import HostCosts, HostTime, Overheads

Pipeline: TypeAlias = Literal["none", "sparse_dist", "inter_iteration", "prefetch", "fused_sparse_dist", "semi_sync"]
InteractionKernel: TypeAlias = Literal["gather", "fused", "mask"]
CudaGraph: TypeAlias = Literal["none", "network", "iteration"]


Factor = Annotated[float, Field(ge=1e-3, le=1e3)]
BucketBytes = Annotated[float, Quantity("bytes", 1.0, 1e15)]
Constant: TypeAlias = Literal[
    "operator_s", "overhead_factor", "elementwise_factor", "embedding_factor", "iteration_s", "table_s", "feature_s"
]
"""Quantities that a fit may set; none of them knows a number of GPUs, a vendor or a batch."""


FactorName: TypeAlias = Literal["elementwise_factor", "embedding_factor", "interaction_factor", "overhead_factor"]


class Fit(Strict):
    """Results of ``dlrmsim calibrate framework``.

    Attributes:
        constants: names of the fitted quantities.
        suites: the suites whose calibration cases with this framework were fitted.
        residuals: errors of the fit.
        gpus: GPUs of the fitted cases; empty: not stated.
        nodes: most nodes of a fitted case; None: not stated.
    """

    constants: Annotated[tuple[Constant, ...], Field(min_length=1, max_length=4)]
    suites: Annotated[tuple[str, ...], Field(min_length=1)]
    residuals: str = ""
    gpus: tuple[str, ...] = ()
    nodes: RankCount | None = None


class Framework(Strict):
    """A framework profile.

    Attributes:
        name: equal to the file's name.
        title: one line for people.
        launch_s: host time to launch one kernel, seconds.
        operator_s: host time of one operator beside its launches (dispatch, Python, autograd), seconds.
        overheads: host time of each operator by name, in parts, in place of the two.
        overhead_factor: host time of operators over ``overheads``: below 1 where a profiler ran when they were taken.
        first_bucket_bytes: size at which DDP closes the first gradient bucket.
        bucket_bytes: size at which it closes the others.
        input_process_group: ``shared``: all collectives serialise on one communication stream; ``own``: those of
            input_dist have a process group, hence a stream, of their own.
        index_bytes: size of an index.
        length_bytes: size of a bag length.
        optimizer_kernels: kernels of the dense optimizer step (multi-tensor).
        cuda_graph: scope of one launch, unless the scenario says so; see
            `workloads.dlrm.model.settings.DlrmSettings`.
        overlap_exchange: see `workloads.dlrm.model.choices.Overlap`, as the next two.
        overlap_all_reduce: likewise.
        overlap_weight_gradients: likewise.
        host_waits: ``never``; ``copies_and_loss``: the host waits for the copies of a batch before it launches the
            forward pass, and for the loss before it launches the backward pass (``tensor.to``, ``loss.item()``).
        one_rank: ``distributed``: a rank alone has DDP and TorchRec, as several do; ``plain``: it has neither, so that
            nothing is exchanged, scaled or summed.
        gradients: ``set`` by the backward pass; ``added``: set to zero after the forward pass, then added to.
        reserve_bytes: device memory that the framework takes (context, allocator slack, NCCL buffers).
        pipeline: overlap between batches, unless the scenario sets it.
        planner: planner of the tables, unless the scenario sets it.
        all_to_all_between_nodes: algorithm of exchanges between nodes where the scenario names none.
        all_to_all: algorithm of exchanges on any number of nodes where neither of the two names one.
        all_reduce: algorithm of sums of gradients where the scenario names none.
        all_reduce_group: ``shared``: sums of gradients wait for the exchanges of pooled vectors on one communication
            stream; ``own``: they have a communicator and a stream, and gradients of copied rows come before the end of
            that exchange.
        hybrid_embedding: whether frequent rows are on all ranks (`workloads.dlrm.iteration.hybrid`), for models that
            allow it.
        bottom_mlp: ``every_rank``: data-parallel; ``first_rank``: the first rank computes it for all samples, and its
            output is exchanged like a pooled vector.
        indices: ``exchanged``: ranks read their samples and send indices to the owners of the tables;
            ``read_by_owners``: each rank reads the indices of its own tables for all samples.
        activations: ``kernels``: an element-wise kernel each; ``epilogue``: at the end of the GEMM before.
        half_weights: origin of 16-bit weights: ``cast``: from fp32 ones at each use, their gradients cast back;
            ``kept``: the optimizer writes them, and reads 16-bit gradients as they were summed.
        received_vectors: ``freed``: the received pooled vectors are freed with the forward pass; ``held``: their buffer
            stays until the iteration ends (TorchRec before pull request 4008).
        interaction_kernel: kernels of the dot interaction: ``gather``: concatenation, all products, gather; ``fused``:
            one kernel; ``mask``: as gather, with a mask of products whose places the host must know (tf.boolean_mask).
        elementwise_factor: memory traffic of element-wise kernels over what the generator counts, one pass for each
            activation, cast and permutation.
        embedding_factor: time of lookups and updates on the device over that of one table-batched kernel each.
        interaction_factor: memory traffic of the products of the dot interaction over what is counted.
        index_backward_s: device time of the gradient of the gather of a product, for each product that is kept: index
            kernels that add (PyTorch's indexing_backward) instead of a pass over memory.
        iteration_s: time per iteration in which the device waits for the host: synchronisation, launch of a graph.
        table_s: time per feature that a rank looks up, forward and update, in which the device waits for launches:
            kernels of its own beside its memory traffic.
        feature_s: the same per feature of the model, on every rank: kernels that split and join pooled vectors.
        fit: names of the fitted quantities, and the suites they were fitted on.
    """

    name: str
    title: str
    launch_s: Graded[HostTime]
    operator_s: Graded[HostTime]
    first_bucket_bytes: Graded[BucketBytes]
    bucket_bytes: Graded[BucketBytes]
    input_process_group: Graded[Literal["shared", "own"]]
    index_bytes: Graded[Literal[4, 8]]
    length_bytes: Graded[Literal[4, 8]]
    optimizer_kernels: Graded[Annotated[int, Field(ge=0, le=1_000_000)]]
    cuda_graph: Graded[CudaGraph]
    overlap_exchange: Graded[bool]
    overlap_all_reduce: Graded[bool]
    overlap_weight_gradients: Graded[bool]
    reserve_bytes: Graded[Annotated[float, Quantity("bytes", 0.0, 1e15)]]
    overheads: Overheads | None = None
    overhead_factor: Graded[Factor] | None = None
    host_waits: Graded[Literal["never", "copies_and_loss"]] | None = None
    one_rank: Graded[Literal["distributed", "plain"]] | None = None
    gradients: Graded[Literal["set", "added"]] | None = None
    pipeline: Graded[Pipeline] | None = None
    planner: Graded[str] | None = None
    all_to_all_between_nodes: Graded[str] | None = None
    all_to_all: Graded[str] | None = None
    all_reduce: Graded[str] | None = None
    all_reduce_group: Graded[Literal["shared", "own"]] | None = None
    hybrid_embedding: Graded[bool] | None = None
    bottom_mlp: Graded[Literal["every_rank", "first_rank"]] | None = None
    indices: Graded[Literal["exchanged", "read_by_owners"]] | None = None
    activations: Graded[Literal["kernels", "epilogue"]] | None = None
    half_weights: Graded[Literal["cast", "kept"]] | None = None
    received_vectors: Graded[Literal["freed", "held"]] | None = None
    interaction_kernel: Graded[InteractionKernel] | None = None
    elementwise_factor: Graded[Factor] | None = None
    embedding_factor: Graded[Factor] | None = None
    interaction_factor: Graded[Factor] | None = None
    index_backward_s: Graded[HostTime] | None = None
    iteration_s: Graded[Annotated[float, Quantity("s", 0.0, 3600.0)]] | None = None
    table_s: Graded[HostTime] | None = None
    feature_s: Graded[HostTime] | None = None
    fit: Fit | None = None

    def seconds(self, name: Literal["iteration_s", "table_s", "feature_s", "index_backward_s"]) -> float:
        """A time, 0 where the profile has none."""
        found: Graded[float] | None = getattr(self, name)
        return 0.0 if found is None else found.value

    def factor(self, name: FactorName) -> float:
        """A factor on memory traffic or host time, 1 where the profile has none."""
        found: Graded[float] | None = getattr(self, name)
        return 1.0 if found is None else found.value

    def host_costs(self) -> HostCosts:
        """Host time of the launches of an iteration."""
        return HostCosts(self.operator_s.value, self.overheads, self.factor("overhead_factor"))

    @property
    def own_pipeline(self) -> Pipeline:
        """The pipeline of scenarios that state none."""
        return "none" if self.pipeline is None else self.pipeline.value

    @property
    def waits_for_copies_and_loss(self) -> bool:
        """Whether the host waits for the batch and for the loss."""
        return self.host_waits is not None and self.host_waits.value == "copies_and_loss"

    @property
    def plain_alone(self) -> bool:
        """Whether a rank alone exchanges nothing."""
        return self.one_rank is not None and self.one_rank.value == "plain"

    @property
    def adds_gradients(self) -> bool:
        """Whether the backward pass adds to gradients that were set to zero."""
        return self.gradients is not None and self.gradients.value == "added"

    @property
    def owners_read(self) -> bool:
        """Whether each rank reads the indices of its own tables, so that none are exchanged."""
        return self.indices is not None and self.indices.value == "read_by_owners"

    @property
    def bottom_on_first_rank(self) -> bool:
        """Whether the first rank computes the bottom MLP for all."""
        return self.bottom_mlp is not None and self.bottom_mlp.value == "first_rank"

    @property
    def sums_apart(self) -> bool:
        """Whether sums of gradients have a communicator and stream of their own."""
        return self.all_reduce_group is not None and self.all_reduce_group.value == "own"

    def algorithms(self, nodes: int) -> dict[Literal["all_to_all", "all_reduce"], str]:
        """The framework's own algorithm of each operation on ``nodes`` nodes."""
        exchange = (self.all_to_all_between_nodes if nodes > 1 else None) or self.all_to_all
        own: dict[Literal["all_to_all", "all_reduce"], Graded[str] | None]
        own = {"all_to_all": exchange, "all_reduce": self.all_reduce}
        return {op: algorithm.value for op, algorithm in own.items() if algorithm is not None}

    @property
    def activates_in_gemm(self) -> bool:
        """Whether activations need no kernel."""
        return self.activations is not None and self.activations.value == "epilogue"

    @property
    def keeps_half_weights(self) -> bool:
        """Whether nothing is cast between the optimizer and the layers."""
        return self.half_weights is not None and self.half_weights.value == "kept"

    @property
    def holds_received_vectors(self) -> bool:
        """Whether the buffer of received pooled vectors stays until the iteration ends."""
        return self.received_vectors is not None and self.received_vectors.value == "held"

    @property
    def dot_kernel(self) -> InteractionKernel:
        """Kernels of the dot interaction."""
        return "gather" if self.interaction_kernel is None else self.interaction_kernel.value


def load_framework(name_or_path: str | Path, *, origin: Document | None = None, key: str = "") -> Framework:
    """Read a shipped profile by name or a profile by path.

    Args:
        origin: the document that names the framework, for messages and relative paths.
        key: dotted key in ``origin``.

    Raises:
        InputError: no such profile, or the file is wrong.
    """
    return validate(Framework, load_yaml(FRAMEWORKS.find(name_or_path, origin=origin, key=key)))
