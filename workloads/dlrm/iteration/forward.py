"""The forward pass: lookups and their exchange beside the bottom MLP, interaction, top MLP, loss."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.operators import Amount, Copy, DenseOptimizer, Elementwise
from workloads.dlrm.iteration.divided_layers import GatheredWeights, gathered_activations, scattered_activations
from workloads.dlrm.iteration.dot_interaction import record_dot
from workloads.dlrm.iteration.gemms import forward_gemm
from workloads.dlrm.iteration.groups import EmbeddingGroup
from workloads.dlrm.iteration.hstu_kernels import StackKernels
from workloads.dlrm.iteration.hstu_tasks import FORWARD, StackForward
from workloads.dlrm.iteration.job import Job
from workloads.dlrm.iteration.output_dist import pooled_name, record_exchange
from workloads.dlrm.model.hstu_part import HstuPart
from workloads.dlrm.model.layers import DenseLayer
from workloads.dlrm.rows.cache import FILL_LAUNCHES
from workloads.graph.recorder import DEFAULT, Recorder

BOTTOM = "bottom_mlp_forward"
DENSE_READER = "pooled_permute"
"""The kernel after which the inputs of an interaction are in place; without a bottom MLP it reads the dense
features."""

LOSS_BYTES = 4.0
"""The loss that the host reads, one fp32 number."""

FORWARD_SHARE = 1 / 3
"""Share of the launches of a table that are of the forward pass; the rest are of the update (assumed: gradients take
about twice the kernels of lookups)."""


def dense_reader(job: Job) -> str:
    """The kernel after which the inputs of an interaction, or of a stack of layers over positions, are in place."""
    return DENSE_READER if job.dense.hstu is None else "vectors_permute"


def fill_name(group: EmbeddingGroup) -> str:
    """The kernel that brings rows of a group into its cache."""
    return f"{group.kind}_cache_fill"


def record_fill(recorder: Recorder, group: EmbeddingGroup, stream: str) -> int | None:
    """Bring the rows of a batch into the caches of a group; returns the task, None where it has no caches."""
    if group.fill is None:
        return None
    return recorder.kernel(
        fill_name(group), group.fill, section="embedding_forward", stream=stream, launches=FILL_LAUNCHES
    )


def record_lookup(recorder: Recorder, job: Job, group: EmbeddingGroup, stream: str) -> int:
    """Look up a group and start its output_dist; returns the lookup."""
    launches_s = FORWARD_SHARE * job.settings.framework.seconds("table_s") * group.lookup.tables
    waits = f"{group.kind}_table_launches"
    recorder.wait_for_launches(waits, launches_s, section="embedding_forward", stream=stream)
    lookup = recorder.kernel(f"{group.kind}_lookup", group.lookup, section="embedding_forward", stream=stream)
    if group.forward:
        record_exchange(recorder, group, "forward", group.forward, stream=stream)
    return lookup


def record_dense(recorder: Recorder, job: Job, ago: int, weights: GatheredWeights) -> int:
    """Bottom MLP, interaction, top MLP, loss, with vectors looked up ``ago`` passes before; returns the first task."""
    pooled = [pooled_name(group) for group in job.groups]
    if not job.settings.overlaps.exchange:
        for name in pooled:
            recorder.stream_wait(f"wait_for_{name}", name, section="embedding_forward", lag=ago)
    if job.dense.hstu is not None:
        return _record_stack(recorder, job, job.dense.hstu, ago)
    tasks = []
    if not job.bottom_on_first_rank:
        tasks = record_mlp(recorder, job, job.dense.bottom, BOTTOM, weights=weights, cast_input=True)
    recorder.wait_in_calls(*pooled)
    reader = record_interaction(recorder, job, weights)
    for name in pooled:
        recorder.depend(reader, name, lag=ago)
    record_mlp(recorder, job, job.dense.top, "top_mlp_forward", weights=weights)
    record_loss(recorder, job)
    return [*tasks, reader][0]


def _record_stack(recorder: Recorder, job: Job, stack: HstuPart, ago: int) -> int:
    """Layers over positions, predictions for the candidates, loss; returns the first task."""

    def linear(layers: Sequence[DenseLayer], positions: Amount, section: str) -> None:
        for layer in layers:
            record_layer(recorder, job, layer, section, positions)

    pooled = [pooled_name(group) for group in job.groups]
    recorder.wait_in_calls(*pooled)
    record_features(recorder, job, FORWARD)
    made = StackForward(recorder, StackKernels.of(job, stack), linear, FORWARD)
    reader = made.record(dense_reader(job))
    for name in pooled:
        recorder.depend(reader, name, lag=ago)
    record_mlp(recorder, job, job.dense.top, "top_mlp_forward", samples=made.kernels.positions.targets)
    record_loss(recorder, job, made.kernels.positions.targets)
    return reader


def record_bottom_of_all(recorder: Recorder, job: Job, stream: str) -> int:
    """The bottom MLP of all samples on the first rank; returns the first task."""
    samples = job.bottom_samples
    return record_mlp(recorder, job, job.dense.bottom, BOTTOM, samples=samples, stream=stream, cast_input=True)[0]


def record_mlp(
    recorder: Recorder,
    job: Job,
    layers: tuple[DenseLayer, ...],
    section: str,
    *,
    samples: Amount | None = None,
    stream: str = DEFAULT,
    cast_input: bool = False,
    weights: GatheredWeights | None = None,
) -> list[int]:
    """The layers of an MLP: a GEMM with the bias in its epilogue, then the activation; returns all tasks.

    ``samples`` are those of each rank, of its batch by default. With ``cast_input`` the inputs are dense features,
    which come as fp32.
    """
    tasks, samples = [], job.batch if samples is None else samples
    if cast_input and job.mixed_precision:
        values = samples * job.dense.dense_features
        cast = Elementwise(4.0 * values, values * job.element_bytes)
        tasks.append(recorder.kernel("dense_input_cast", cast, section=section, stream=stream))
    kernels = not job.settings.framework.activates_in_gemm
    for layer in layers:
        tasks.append(record_layer(recorder, job, layer, section, samples, stream, weights))
        if layer.activation and kernels:
            size = output_bytes(job, layer, samples)
            work = Elementwise(size, size)
            name = f"{layer.name}_activation"
            tasks.append(recorder.kernel(name, work, section=section, stream=stream, operators=["aten::relu"]))
    return tasks


def record_layer(
    recorder: Recorder,
    job: Job,
    layer: DenseLayer,
    section: str,
    samples: Amount,
    stream: str = DEFAULT,
    weights: GatheredWeights | None = None,
) -> int:
    """A linear layer, its operands cast first; returns its first task.

    fp32 weights are cast where it computes in 16 or 8 bits, in fp8 the 16-bit inputs too; what is cast to fp8 is
    written twice, as it is and transposed for the backward pass (Transformer Engine, recalled). A divided layer waits
    for its weights and for its inputs from the tensor group, and the kernels after it for its summed outputs.
    """
    part, own, shared = job.parts.get(layer.name), job.on_rank(layer), job.samples(layer, samples)
    tasks = [] if weights is None else weights.use(part, section)
    if part is not None and part.gathers_inputs:
        name = f"{layer.name}_inputs"
        tasks.append(gathered_activations(recorder, job, name, layer.inputs, part, section))
    if job.casts_weights and (part is None or part.shard.size == 1):
        cast = Elementwise(4.0 * own.parameters, 2.0 * own.parameters)
        tasks.append(recorder.kernel(f"{layer.name}_weight_cast", cast, section=section, stream=stream))
    if job.precision == "fp8":
        size = shared * (own.inputs * job.element_bytes)
        cast = Elementwise(size, size)
        tasks.append(recorder.kernel(f"{layer.name}_input_cast", cast, section=section, stream=stream))
    product = forward_gemm(job, own, shared)
    tasks.append(recorder.kernel(f"{layer.name}_forward", product, section=section, stream=stream))
    if part is not None and part.scatters_outputs:
        name = f"{layer.name}_outputs"
        call = scattered_activations(recorder, job, name, layer.outputs, part, section)
        recorder.stream_wait(f"wait_{name}", call, section=section)
    return tasks[0]


def output_bytes(job: Job, layer: DenseLayer, samples: Amount) -> Amount:
    """Size of a layer's outputs on a rank, behind the sum over its tensor group where there is one."""
    part = job.parts.get(layer.name)
    scattered = part is not None and part.scatters_outputs
    return (samples if scattered else job.samples(layer, samples)) * (job.on_rank(layer).outputs * job.element_bytes)


def record_interaction(recorder: Recorder, job: Job, weights: GatheredWeights | None = None) -> int:
    """Bring the pooled vectors into the dense precision and layout, then let them interact; returns their reader.

    Received data is ordered by owner and in the precision of the wire; one pass concatenates and casts it.
    """
    section = "interaction_forward"
    arrived = float(job.batch * job.pooled_width * job.settings.forward_bytes)
    cast = pooled_columns(job, arrived, job.vector_bytes(job.pooled_width))
    record_features(recorder, job, section)
    reader = recorder.kernel(DENSE_READER, cast, section=section, operators=["aten::cat"])
    inputs, outputs = job.vector_bytes(job.dense.interaction_inputs), job.vector_bytes(job.dense.interaction_outputs)
    if job.interaction == "dot":
        record_dot(recorder, job)
    else:
        recorder.kernel("interaction", Elementwise(inputs, outputs), section=section)
    record_cross(recorder, job, weights)
    return reader


def pooled_columns(job: Job, read_bytes: float, write_bytes: float) -> Elementwise:
    """Copy received pooled vectors into their columns, or their gradients out of them."""
    parts = float(job.pooled_parts)
    return Elementwise(read_bytes, write_bytes, access="columns", pieces=job.batch * parts, parts=parts)


def record_features(recorder: Recorder, job: Job, section: str) -> None:
    """Overhead of kernels of each feature on every rank, half of it forward, half backward."""
    feature_s = job.settings.framework.seconds("feature_s")
    launches_s = feature_s / 2 * job.plan.tables.feature_count
    recorder.wait_for_launches(f"feature_launches_{section}", launches_s, section=section)


def record_cross(recorder: Recorder, job: Job, weights: GatheredWeights | None) -> None:
    """Cross layers: two GEMMs, then ``x0 * y + x`` where the second one has its activation."""
    for layer in job.dense.cross:
        record_layer(recorder, job, layer, "interaction_forward", job.batch, weights=weights)
        if layer.activation:
            size = job.vector_bytes(layer.outputs)
            combine = Elementwise(3 * size, size)
            recorder.kernel(f"{layer.name}_activation", combine, section="interaction_forward")


def record_loss(recorder: Recorder, job: Job, predictions: Amount | None = None) -> None:
    """The loss of the top MLP's output, which the host may read, and its gradient, unless the job only evaluates."""
    made = job.batch if predictions is None else predictions
    size = made * float(job.dense.top[-1].outputs * job.element_bytes)
    work = Elementwise(2 * size, size)
    recorder.kernel("loss", work, section="loss", launches=2, operators=["aten::mse_loss"])
    if job.waits_for_copies_and_loss:
        recorder.kernel("loss_to_host", Copy(LOSS_BYTES, "d2h"), section="loss")
        recorder.wait_for("loss_to_host", section="loss")
    if job.settings.evaluates:
        return
    if job.settings.framework.adds_gradients:
        zero = DenseOptimizer(job.parameters, job.copied_bytes)
        recorder.kernel("zero_gradients", zero, section="loss", launches=job.tensors, operators=["Optimizer.zero_grad"])
    recorder.kernel("loss_backward", work, section="loss_backward", launches=2, operators=["MseLossBackward"])
