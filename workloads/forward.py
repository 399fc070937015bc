"""The forward pass: lookups and their exchange beside the bottom MLP, interaction, top MLP, loss."""

from __future__ import annotations

from simulator.operators import Amount, Elementwise, Gemm, Interaction
from workloads.dense import Layer
from workloads.job import Job
from workloads.launch import Recorder
from workloads.output_dist import record_exchange


def record_lookups(recorder: Recorder, job: Job) -> tuple[list[int], list[int]]:
    """Look up each group and start its output_dist.

    Returns:
        the lookups, and what the pooled vectors wait for: output_dist, or the lookup itself for copied tables.
    """
    lookups, pooled = [], []
    for group in job.groups:
        lookup = recorder.kernel(f"{group.kind}_lookup", group.lookup, section="embedding_forward")
        lookups.append(lookup)
        pooled.append(record_exchange(recorder, group, "forward", group.forward) if group.forward else lookup)
    return lookups, pooled


def record_mlp(
    recorder: Recorder, job: Job, layers: tuple[Layer, ...], section: str, samples: Amount | None = None
) -> list[int]:
    """The layers of an MLP: a GEMM with the bias in its epilogue, then the activation; returns all tasks.

    Args:
        recorder: of the iteration.
        job: the job.
        layers: of the MLP.
        section: of the iteration.
        samples: of each rank, where they are not those of its batch.
    """
    tasks, samples = [], job.batch if samples is None else samples
    for layer in layers:
        tasks.append(record_layer(recorder, job, layer, section, samples))
        if layer.activation:
            size = samples * (layer.outputs * job.element_bytes)
            tasks.append(recorder.kernel(f"{layer.name}_activation", Elementwise(size, size), section=section))
    return tasks


def record_layer(recorder: Recorder, job: Job, layer: Layer, section: str, samples: Amount) -> int:
    """A linear layer, its fp32 weights cast first where it computes in 16 bits; returns its first task."""
    first = None
    if job.mixed_precision:
        cast = Elementwise(4.0 * layer.parameters, 2.0 * layer.parameters)
        first = recorder.kernel(f"{layer.name}_weight_cast", cast, section=section)
    gemm = Gemm(m=samples, n=layer.outputs, k=layer.inputs, precision=job.precision)
    product = recorder.kernel(f"{layer.name}_forward", gemm, section=section)
    return product if first is None else first


def record_interaction(recorder: Recorder, job: Job, pooled: list[int]) -> int:
    """Bring the pooled vectors into the dense precision and layout, then let them interact.

    What arrives is ordered by owner and in the precision of the wire; one pass concatenates and casts it.

    Returns:
        the task that reads the output of the bottom MLP.
    """
    section = "interaction_forward"
    arrived = float(job.batch * job.pooled_width * job.settings.forward_bytes)
    cast = Elementwise(arrived, job.vector_bytes(job.pooled_width))
    recorder.kernel("pooled_permute", cast, section=section, after=pooled)
    inputs, outputs = job.vector_bytes(job.dense.interaction_inputs), job.vector_bytes(job.dense.interaction_outputs)
    if job.interaction == "dot":
        product = float(job.batch * _pairs(job) * job.element_bytes)
        flops = float(job.batch * job.dense.interaction_flops_per_sample)
        joined = recorder.kernel("interaction_cat", Elementwise(inputs, inputs), section=section)
        recorder.kernel("interaction", Interaction(flops, inputs, product, job.precision), section=section)
        recorder.kernel("interaction_gather", Elementwise(outputs, outputs), section=section, launches=2)
    else:
        joined = recorder.kernel("interaction", Elementwise(inputs, outputs), section=section)
    record_cross(recorder, job)
    return joined


def record_cross(recorder: Recorder, job: Job) -> None:
    """Cross layers: two GEMMs, then ``x0 * y + x`` where the second one has its activation."""
    for layer in job.dense.cross:
        record_layer(recorder, job, layer, "interaction_forward", job.batch)
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
