"""Matrix products of a linear layer for ``samples`` of each rank: forward, gradients of inputs and of weights."""

from __future__ import annotations

from simulator.operators import Amount, Gemm
from workloads.dlrm.iteration.job import Job
from workloads.dlrm.model.dense import DenseLayer

PADDING = {"fp8": 16}
DEFAULT_PADDING = 8
"""Trainers that use tensor cores pad widths to multiples of 8 elements: the 479 outputs of MLPerf's interaction are 480
in HugeCTR and in NVIDIA's DeepLearningExamples (recalled); fp8 needs multiples of 16 (cuBLAS, recalled). Widths that
stand in for a mean have no multiple either."""


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
    """The padded width; a width of 1 is not padded."""
    padding = PADDING.get(job.precision, DEFAULT_PADDING)
    return width if job.precision == "fp32" or width == 1 else -(-width // padding) * padding
