"""The dot interaction on CPUs, whose time depends on the shapes of its many small products."""

from __future__ import annotations

from simulator.operators import Elementwise, Gemm
from workloads.dlrm.iteration.job import Job
from workloads.graph.recorder import Recorder


def record_dot_on_host(recorder: Recorder, job: Job) -> None:
    """Products of each sample's vectors, ``[n, d] x [d, n]``; each pair once, beside the bottom MLP's output."""
    section, (vectors, dim) = "interaction_forward", _shape(job)
    inputs, outputs = job.vector_bytes(job.dense.interaction_inputs), job.vector_bytes(job.dense.interaction_outputs)
    kept = job.vector_bytes(job.pairs)
    product = Gemm(m=vectors, n=vectors, k=dim, precision=job.precision, count=job.batch)
    recorder.kernel("interaction_cat", Elementwise(inputs, inputs), section=section)
    recorder.kernel("interaction", product, section=section)
    recorder.kernel("interaction_gather", Elementwise(kept, kept, access="gather"), section=section)
    recorder.kernel("interaction_join", Elementwise(outputs, outputs), section=section)


def record_dot_backward_on_host(recorder: Recorder, job: Job) -> None:
    """Gradients of both factors, ``[n, n] x [n, d]`` of each sample, which are the same vectors, added up.

    That of the right factor comes first: autograd goes through ``bmm(self, mat2)`` by name. It keeps a leaf's gradient
    in a buffer as dense as the leaf: that of the pooled vectors, a part of the sum, is copied (pytorch
    csrc/autograd/functions/accumulate_grad.h).
    """
    section, (vectors, dim) = "interaction_backward", _shape(job)
    inputs, kept = job.vector_bytes(job.dense.interaction_inputs), job.vector_bytes(job.pairs)
    scattered = Elementwise(kept, job.vector_bytes(vectors * vectors), access="scatter")
    left = Gemm(m=vectors, n=dim, k=vectors, precision=job.precision, count=job.batch)
    right = Gemm(m=dim, n=vectors, k=vectors, precision=job.precision, count=job.batch, transposed=True)
    recorder.kernel("interaction_gather_backward", scattered, section=section)
    recorder.kernel("interaction_right_gradient", right, section=section)
    recorder.kernel("interaction_left_gradient", left, section=section)
    recorder.kernel("interaction_add", Elementwise(2 * inputs, inputs, access="transpose"), section=section)
    pooled = job.vector_bytes(job.pooled_width)
    recorder.kernel("interaction_pooled_gradient", Elementwise(pooled, pooled), section=section)


def _shape(job: Job) -> tuple[int, int]:
    """Vectors of a sample, and their length."""
    vectors = job.plan.tables.feature_count + 1
    return vectors, job.dense.interaction_inputs // vectors
