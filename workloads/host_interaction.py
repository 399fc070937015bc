"""The dot interaction on a CPU, as our trainer computes it: products by shape, pairs taken one by one."""

from __future__ import annotations

from simulator.operators import Elementwise
from workloads.gemms import pair_gradients, pair_products
from workloads.job import Job
from workloads.launch import Recorder


def record_dot_on_host(recorder: Recorder, job: Job) -> None:
    """All products of a sample's vectors; each pair is taken once and put beside the bottom MLP's output."""
    section = "interaction_forward"
    inputs, outputs = job.vector_bytes(job.dense.interaction_inputs), job.vector_bytes(job.dense.interaction_outputs)
    kept = job.vector_bytes(job.pairs)
    recorder.kernel("interaction_cat", Elementwise(inputs, inputs), section=section)
    recorder.kernel("interaction", pair_products(job), section=section)
    recorder.kernel("interaction_gather", Elementwise(kept, kept, access="gather"), section=section)
    recorder.kernel("interaction_join", Elementwise(outputs, outputs), section=section)


def record_dot_backward_on_host(recorder: Recorder, job: Job) -> None:
    """Gradients of both factors, which are the same vectors, added up."""
    section = "interaction_backward"
    inputs = job.vector_bytes(job.dense.interaction_inputs)
    product = float(job.batch * (job.plan.tables.feature_count + 1) ** 2 * job.element_bytes)
    scattered = Elementwise(job.vector_bytes(job.pairs), product, access="scatter")
    recorder.kernel("interaction_gather_backward", scattered, section=section)
    for side, work in zip(("left", "right"), pair_gradients(job), strict=True):
        recorder.kernel(f"interaction_{side}_gradient", work, section=section)
    recorder.kernel("interaction_add", Elementwise(2 * inputs, inputs, access="transpose"), section=section)
