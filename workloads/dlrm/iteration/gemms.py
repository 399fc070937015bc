"""Matrix products of a linear layer for ``samples`` of each rank: forward, gradients of inputs and of weights."""

from __future__ import annotations

from simulator.operators import Amount, Gemm
from workloads.dlrm.iteration.job import Job
from workloads.dlrm.model.dense import padded_width
from workloads.dlrm.model.layers import DenseLayer


def forward_gemm(job: Job, layer: DenseLayer, samples: Amount) -> Gemm:
    """``[batch, inputs] x [inputs, outputs]``."""
    return Gemm(m=samples, n=_width(job, layer.outputs), k=_width(job, layer.inputs), precision=job.precision)


def input_gradient_gemm(job: Job, layer: DenseLayer, samples: Amount) -> Gemm:
    """``[batch, outputs] x [outputs, inputs]``."""
    return Gemm(m=samples, n=_width(job, layer.inputs), k=_width(job, layer.outputs), precision=job.precision)


def weight_gradient_gemm(job: Job, layer: DenseLayer, samples: Amount) -> Gemm:
    """``[outputs, batch] x [batch, inputs]``; the gradient of the outputs is stored by samples."""
    m, n = _width(job, layer.outputs), _width(job, layer.inputs)
    return Gemm(m=m, n=n, k=samples, precision=job.precision, transposed=True)


def _width(job: Job, width: int) -> int:
    return padded_width(width, job.precision)
