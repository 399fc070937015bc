"""The dot interaction, forward and backward, as frameworks compute it: in one kernel, or with products in memory."""

from __future__ import annotations

from simulator.categories import Category
from simulator.operators import Copy, Elementwise, Interaction, Marker, Measured
from workloads.dlrm.iteration.dot_on_host import record_dot_backward_on_host, record_dot_on_host
from workloads.dlrm.iteration.job import Job
from workloads.graph.recorder import Recorder

PLACE_BYTES = 24
"""Bytes that locate a kept product: its sample, row and column, int64 (tf.where)."""


def record_dot(recorder: Recorder, job: Job) -> None:
    """The dot interaction: in one kernel, or with all products in memory.

    With a mask the products are read four times to make it, the places of those that are kept are counted on the host
    and written, and the kept ones gathered (tf.boolean_mask of a band); these passes are counted one by one, so no
    factor of the framework applies to them.
    """
    if job.settings.on_host:
        record_dot_on_host(recorder, job)
        return
    section, kernel = "interaction_forward", job.settings.framework.dot_kernel
    inputs, outputs = job.vector_bytes(job.dense.interaction_inputs), job.vector_bytes(job.dense.interaction_outputs)
    flops = float(job.batch * job.dense.interaction_flops_per_sample)
    if kernel == "fused":
        recorder.kernel("interaction", Interaction(flops, inputs, outputs, job.precision), section=section)
        return
    product = _product_bytes(job)
    recorder.kernel("interaction_cat", Elementwise(inputs, inputs), section=section, operators=["aten::cat"])
    recorder.kernel("interaction", Interaction(flops, inputs, product, job.precision), section=section)
    if kernel == "mask":
        places = outputs / job.element_bytes * PLACE_BYTES
        mask = Interaction(0.0, 4 * product, 3 * product, job.precision)
        recorder.kernel("interaction_mask", mask, section=section, launches=4)
        found = Interaction(0.0, product, places, job.precision)
        recorder.kernel("interaction_places", found, section=section, launches=3)
        counted = recorder.kernel("interaction_count_to_host", Copy(8.0, "d2h"), section=section)
        recorder.depend(recorder.host("wait_interaction_count", Marker(), section=section), counted)
        recorder.kernel("interaction_gather", Elementwise(outputs + places, outputs), section=section, launches=2)
        return
    gather = Elementwise(outputs, outputs)
    recorder.kernel("interaction_gather", gather, section=section, launches=2, operators=["aten::index", "aten::cat"])


def record_dot_backward(recorder: Recorder, job: Job) -> None:
    """Its gradients: two products of a sample's vectors with the gradients of their products."""
    if job.settings.on_host:
        record_dot_backward_on_host(recorder, job)
        return
    section, fused = "interaction_backward", job.settings.framework.dot_kernel == "fused"
    inputs, outputs = job.vector_bytes(job.dense.interaction_inputs), job.vector_bytes(job.dense.interaction_outputs)
    flops = 2.0 * job.batch * job.dense.interaction_flops_per_sample
    if fused:
        whole = Interaction(flops, outputs + inputs, inputs, job.precision)
        recorder.kernel("interaction_backward", whole, section=section)
        return
    product = _product_bytes(job)
    each_s = job.settings.framework.seconds("index_backward_s")
    kept = outputs / job.element_bytes
    gather = Measured(each_s * kept, Category.COMPUTE, "index backward") if each_s else Elementwise(outputs, product)
    recorder.kernel("interaction_gather_backward", gather, section=section, operators=["IndexBackward"])
    products = Interaction(flops, 2 * (product + inputs), 2 * inputs, job.precision)
    recorder.kernel("interaction_backward", products, section=section, launches=2)


def _product_bytes(job: Job) -> float:
    """All products of the vectors of a sample, of features and bottom MLP, for the batch."""
    return float(job.batch * (job.plan.tables.feature_count + 1) ** 2 * job.element_bytes)
