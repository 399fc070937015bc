"""Matrix products: of a linear layer for ``samples`` of each rank, of its gradients, and of the dot interaction."""

from __future__ import annotations

from simulator.operators import Amount, Gemm
from workloads.dense import Layer
from workloads.job import Job

PADDING = {"fp8": 16}
DEFAULT_PADDING = 8
"""Trainers that use tensor cores pad widths to multiples of 8 elements: the 479 outputs of MLPerf's interaction are 480
in HugeCTR and in NVIDIA's DeepLearningExamples (recalled); fp8 needs multiples of 16 (cuBLAS, recalled). Widths that
stand in for a mean have no multiple either."""


def forward_gemm(job: Job, layer: Layer, samples: Amount) -> Gemm:
    """``[batch, inputs] x [inputs, outputs]``."""
    return Gemm(m=samples, n=_width(job, layer.outputs), k=_width(job, layer.inputs), precision=job.precision)


def input_gradient_gemm(job: Job, layer: Layer, samples: Amount) -> Gemm:
    """``[batch, outputs] x [outputs, inputs]``."""
    return Gemm(m=samples, n=_width(job, layer.inputs), k=_width(job, layer.outputs), precision=job.precision)


def weight_gradient_gemm(job: Job, layer: Layer, samples: Amount) -> Gemm:
    """``[outputs, batch] x [batch, inputs]``; the gradient of the outputs is stored by samples."""
    m, n = _width(job, layer.outputs), _width(job, layer.inputs)
    return Gemm(m=m, n=n, k=samples, precision=job.precision, transposed=True)


def _width(job: Job, width: int) -> int:
    """What a width is padded to; a single output stays alone."""
    padding = PADDING.get(job.precision, DEFAULT_PADDING)
    return width if job.precision == "fp32" or width == 1 else -(-width // padding) * padding


def pair_products(job: Job) -> Gemm:
    """The dot interaction: of each sample all vectors with all, ``[n, d] x [d, n]``."""
    vectors, dim = job.plan.tables.feature_count + 1, _pair_dim(job)
    return Gemm(m=vectors, n=vectors, k=dim, precision=job.precision, count=job.batch)


def pair_gradients(job: Job) -> tuple[Gemm, Gemm]:
    """Its gradients with respect to the left and the right factor, ``[n, n] x [n, d]`` of each sample."""
    vectors, dim = job.plan.tables.feature_count + 1, _pair_dim(job)
    left = Gemm(m=vectors, n=dim, k=vectors, precision=job.precision, count=job.batch)
    return left, Gemm(m=dim, n=vectors, k=vectors, precision=job.precision, count=job.batch, transposed=True)


def _pair_dim(job: Job) -> int:
    return job.dense.interaction_inputs // (job.plan.tables.feature_count + 1)
