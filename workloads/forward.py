"""The forward pass: lookups and their exchange beside the bottom MLP, interaction, top MLP, loss."""

from __future__ import annotations

from simulator.operators import Amount, Elementwise
from workloads.cache import FILL_LAUNCHES
from workloads.dense import Layer
from workloads.dot_interaction import record_dot
from workloads.gemms import forward_gemm
from workloads.groups import EmbeddingGroup
from workloads.job import Job
from workloads.launch import DEFAULT, Recorder
from workloads.output_dist import pooled_name, record_exchange

BOTTOM = "bottom_mlp_forward"
DENSE_READER = "pooled_permute"
"""The kernel after which what an interaction reads is in place; without a bottom MLP it reads the dense features."""

FORWARD_SHARE = 1 / 3
"""Share of the launches of a table that are of the forward pass; the rest are of the update (assumed: gradients take
about twice the kernels of lookups)."""


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


def record_dense(recorder: Recorder, job: Job, ago: int) -> int:
    """Bottom MLP, interaction, top MLP, loss, with vectors looked up ``ago`` passes before; returns the first task."""
    pooled = [pooled_name(group) for group in job.groups]
    if not job.settings.overlaps.exchange:
        for name in pooled:
            recorder.stream_wait(f"wait_for_{name}", name, section="embedding_forward", lag=ago)
    bottom = [] if job.bottom_on_first_rank else record_mlp(recorder, job, job.dense.bottom, BOTTOM)
    reader = record_interaction(recorder, job)
    for name in pooled:
        recorder.depend(reader, name, lag=ago)
    record_mlp(recorder, job, job.dense.top, "top_mlp_forward")
    record_loss(recorder, job)
    return [*bottom, reader][0]


def record_bottom_of_all(recorder: Recorder, job: Job, stream: str) -> int:
    """The bottom MLP of all samples on the first rank; returns the first task."""
    return record_mlp(recorder, job, job.dense.bottom, BOTTOM, samples=job.bottom_samples, stream=stream)[0]


def record_mlp(
    recorder: Recorder,
    job: Job,
    layers: tuple[Layer, ...],
    section: str,
    *,
    samples: Amount | None = None,
    stream: str = DEFAULT,
) -> list[int]:
    """The layers of an MLP: a GEMM with the bias in its epilogue, then the activation; returns all tasks.

    ``samples`` are those of each rank, of its batch by default.
    """
    tasks, samples = [], job.batch if samples is None else samples
    kernels = not job.settings.framework.activates_in_gemm
    for layer in layers:
        tasks.append(record_layer(recorder, job, layer, section, samples, stream))
        if layer.activation and kernels:
            size = samples * (layer.outputs * job.element_bytes)
            work = Elementwise(size, size)
            tasks.append(recorder.kernel(f"{layer.name}_activation", work, section=section, stream=stream))
    return tasks


def record_layer(
    recorder: Recorder, job: Job, layer: Layer, section: str, samples: Amount, stream: str = DEFAULT
) -> int:
    """A linear layer, its fp32 weights cast first where it computes in 16 bits; returns its first task."""
    first = None
    if job.casts_weights:
        cast = Elementwise(4.0 * layer.parameters, 2.0 * layer.parameters)
        first = recorder.kernel(f"{layer.name}_weight_cast", cast, section=section, stream=stream)
    product = recorder.kernel(
        f"{layer.name}_forward", forward_gemm(job, layer, samples), section=section, stream=stream
    )
    return product if first is None else first


def record_interaction(recorder: Recorder, job: Job) -> int:
    """Bring the pooled vectors into the dense precision and layout, then let them interact; returns their reader.

    What arrives is ordered by owner and in the precision of the wire; one pass concatenates and casts it.
    """
    section = "interaction_forward"
    arrived = float(job.batch * job.pooled_width * job.settings.forward_bytes)
    cast = Elementwise(arrived, job.vector_bytes(job.pooled_width))
    record_features(recorder, job, section)
    reader = recorder.kernel(DENSE_READER, cast, section=section)
    inputs, outputs = job.vector_bytes(job.dense.interaction_inputs), job.vector_bytes(job.dense.interaction_outputs)
    if job.interaction == "dot":
        record_dot(recorder, job)
    else:
        recorder.kernel("interaction", Elementwise(inputs, outputs), section=section)
    record_cross(recorder, job)
    return reader


def record_features(recorder: Recorder, job: Job, section: str) -> None:
    """What kernels of each feature add on every rank, half of it forward, half backward."""
    feature_s = job.settings.framework.seconds("feature_s")
    launches_s = feature_s / 2 * job.plan.tables.feature_count
    recorder.wait_for_launches(f"feature_launches_{section}", launches_s, section=section)


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
