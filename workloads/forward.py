"""The forward pass: lookups and their exchange beside the bottom MLP, interaction, top MLP, loss."""

from __future__ import annotations

from simulator.operators import Elementwise, Gemm, Interaction
from workloads.cache import FILL_LAUNCHES
from workloads.dense import Layer
from workloads.gemms import forward_gemm, pair_products
from workloads.groups import EmbeddingGroup
from workloads.job import Job
from workloads.launch import Recorder
from workloads.output_dist import pooled_name, record_exchange


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


def record_lookup(recorder: Recorder, group: EmbeddingGroup, stream: str) -> int:
    """Look up a group and start its output_dist; returns the lookup."""
    lookup = recorder.kernel(f"{group.kind}_lookup", group.lookup, section="embedding_forward", stream=stream)
    if group.forward:
        record_exchange(recorder, group, "forward", group.forward, stream=stream)
    return lookup


def record_dense(recorder: Recorder, job: Job, ago: int) -> int:
    """Bottom MLP, interaction, top MLP, loss, with vectors looked up ``ago`` passes before; returns the first task."""
    pooled = [pooled_name(group) for group in job.groups]
    if not job.settings.overlaps.exchange:
        for name in pooled:
            recorder.stream_wait(f"wait_for_{name}", name, section="embedding_forward", lag=ago)
    tasks = [record_input_cast(recorder, job)] if job.mixed_precision else []
    tasks += record_mlp(recorder, job, job.dense.bottom, "bottom_mlp_forward")
    reader = record_interaction(recorder, job)
    for name in pooled:
        recorder.depend(reader, name, lag=ago)
    record_mlp(recorder, job, job.dense.top, "top_mlp_forward")
    record_loss(recorder, job)
    return tasks[0]


def record_input_cast(recorder: Recorder, job: Job) -> int:
    """The dense features come as fp32."""
    values = float(job.batch * job.dense.dense_features)
    cast = Elementwise(4.0 * values, values * job.element_bytes)
    return recorder.kernel("dense_input_cast", cast, section="bottom_mlp_forward")


def record_mlp(recorder: Recorder, job: Job, layers: tuple[Layer, ...], section: str) -> list[int]:
    """The layers of an MLP: a GEMM with the bias in its epilogue, then the activation; returns all tasks."""
    tasks = []
    for layer in layers:
        tasks.append(record_layer(recorder, job, layer, section))
        if layer.activation:
            size = job.vector_bytes(layer.outputs)
            tasks.append(recorder.kernel(f"{layer.name}_activation", Elementwise(size, size), section=section))
    return tasks


def record_layer(recorder: Recorder, job: Job, layer: Layer, section: str) -> int:
    """A linear layer, its operands cast first; returns its first task.

    fp32 weights are cast where it computes in 16 or 8 bits, in fp8 the 16-bit inputs too; what is cast to fp8 is
    written twice, as it is and transposed for the backward pass (Transformer Engine, recalled).
    """
    tasks = []
    if job.mixed_precision:
        cast = Elementwise(4.0 * layer.parameters, 2.0 * layer.parameters)
        tasks.append(recorder.kernel(f"{layer.name}_weight_cast", cast, section=section))
    if job.precision == "fp8":
        size = job.vector_bytes(layer.inputs)
        tasks.append(recorder.kernel(f"{layer.name}_input_cast", Elementwise(size, size), section=section))
    tasks.append(recorder.kernel(f"{layer.name}_forward", forward_gemm(job, layer), section=section))
    return tasks[0]


def record_interaction(recorder: Recorder, job: Job) -> int:
    """Bring the pooled vectors into the dense precision and layout, then let them interact; returns their reader.

    What arrives is ordered by owner and in the precision of the wire; one pass concatenates and casts it.
    """
    section = "interaction_forward"
    arrived = float(job.batch * job.pooled_width * job.settings.forward_bytes)
    pieces = float(job.batch * job.plan.tables.feature_count)
    cast = Elementwise(arrived, job.vector_bytes(job.pooled_width), access="columns", pieces=pieces)
    reader = recorder.kernel("pooled_permute", cast, section=section)
    inputs, outputs = job.vector_bytes(job.dense.interaction_inputs), job.vector_bytes(job.dense.interaction_outputs)
    if job.interaction == "dot":
        product = float(job.batch * _pairs(job) * job.element_bytes)
        flops = float(job.batch * job.dense.interaction_flops_per_sample)
        recorder.kernel("interaction_cat", Elementwise(inputs, inputs), section=section)
        work: Gemm | Interaction = Interaction(flops, inputs, product, job.precision)
        if job.settings.on_host:
            work = pair_products(job)
        recorder.kernel("interaction", work, section=section)
        record_gather(recorder, job)
    else:
        recorder.kernel("interaction", Elementwise(inputs, outputs), section=section)
    record_cross(recorder, job)
    return reader


def record_gather(recorder: Recorder, job: Job) -> None:
    """Take each pair's product once and put them beside the bottom MLP's output."""
    section, outputs = "interaction_forward", job.vector_bytes(job.dense.interaction_outputs)
    if not job.settings.on_host:
        recorder.kernel("interaction_gather", Elementwise(outputs, outputs), section=section, launches=2)
        return
    kept = job.vector_bytes(job.pairs)
    recorder.kernel("interaction_gather", Elementwise(kept, kept, access="gather"), section=section)
    recorder.kernel("interaction_join", Elementwise(outputs, outputs), section=section)


def record_cross(recorder: Recorder, job: Job) -> None:
    """Cross layers: two GEMMs, then ``x0 * y + x`` where the second one has its activation."""
    for layer in job.dense.cross:
        record_layer(recorder, job, layer, "interaction_forward")
        if layer.activation:
            size = job.vector_bytes(layer.outputs)
            combine = Elementwise(3 * size, size)
            recorder.kernel(f"{layer.name}_activation", combine, section="interaction_forward")


def record_loss(recorder: Recorder, job: Job) -> None:
    """The loss of the top MLP's output and its gradient."""
    size = job.vector_bytes(job.dense.top[-1].outputs)
    recorder.kernel("loss", Elementwise(2 * size, size), section="loss", launches=2)
    recorder.kernel("loss_backward", Elementwise(2 * size, size), section="loss", launches=2)


def _pairs(job: Job) -> int:
    """Products that the dot interaction computes per sample: all pairs of the vectors of features and bottom MLP."""
    return (job.plan.tables.feature_count + 1) ** 2
