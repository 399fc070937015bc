"""Time of a convolution: the fastest of the algorithms that cuDNN has, as frameworks choose by trying them.

With b images, c input and k output channels, a window of r x s, and h x w places of inputs and h' x w' of outputs, each
pass is a matrix product [m, n] with sums of length l, whose tiles and waves are those of any GEMM
(`simulator.compute.gemm`):

    forward   m = b h' w'   n = k      l = c r s
    inputs    m = b h w     n = c      l = k r s / stride   (a part of the products is with zeros that are left out)
    weights   m = k         n = c r s  l = b h' w'

    implicit       start + max(product / fraction, bytes / memory rate)
    fused Winograd the same with a product of 16 matrices, [b h' w' / 4, k] with sums of length c, for windows of 3 x 3
    Winograd       3 starts + product of (t + r - 1)^2 matrices for tiles of t x t places, t = 4, windows of 3 x 3 or
                   5 x 5 + bytes of the transformed tensors, written and read, and of the tensors / memory rate

Winograd's algorithms (Lavin and Gray, arXiv:1509.09308) need stride 1 and exist here for fp32. The products of the last
are those of cuBLAS; kernels of the first two reach a fraction of that, a constant of the GPU's generation. A depthwise
convolution moves its tensors and computes next to nothing: start + bytes / memory rate. Workspaces are not limited.
``python -m benchmarks convolutions`` prints the errors on measured kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from simulator.compute.gemm import CUDA_CORES, GemmRates, gemm_s
from simulator.operators import Convolution, Gemm

FUSED_TILE, TILE = 2, 4
"""Edge of a Winograd tile's outputs: in one kernel, and with transformed tensors in memory."""

FUSED_WINDOWS, WINDOWS = (3,), (3, 5)
"""Edges of the windows that cuDNN has these algorithms for (its manual, ``cudnnConvolutionFwdAlgo_t``)."""

TRANSFORMED = 2.0
"""Accesses of a transformed tensor: written by one kernel, read by the next."""


@dataclass(frozen=True, slots=True)
class Fractions:
    """Rate of cuDNN's kernels over the rate of a GEMM of the same shape.

    Attributes:
        data: forward pass and gradient of the inputs.
        weights: gradient of the weights.
    """

    data: float
    weights: float


VOLTA = Fractions(0.78, 0.58)
FRACTIONS: dict[tuple[str, bool], Fractions] = {
    ("kepler", False): Fractions(0.35, 0.24),
    ("maxwell", False): Fractions(0.56, 0.38),
    ("pascal", False): Fractions(0.56, 0.48),
    ("volta", False): VOLTA,
    ("volta", True): Fractions(0.60, 0.52),
}
"""Fractions by architecture and by whether tensor cores compute.

Least mean absolute logarithm of predicted over measured time on DeepBench's training convolutions with more than 3
input channels (baidu-research/DeepBench, results/train: M40, P100, V100 in fp32 and with tensor cores;
tests/validation/test_convolutions.py repeats the fit). Kepler: Maxwell's, both multiplied so that ResNet-50 with 64
images takes as long as published for a K80 (tensorflow/tensorflow, docs_src/performance/benchmarks.md, 51.9 images/s);
the clock of those K80 under load is in it.
"""


@dataclass(frozen=True, slots=True)
class ConvolutionRates:
    """Rates that convolutions reach on a GPU.

    Attributes:
        gemm: rates of matrix products in the same precision.
        fractions: fractions of these that the GPU's generation reaches.
        stream_bytes_per_s: rate of memory.
        kernel_start_s: start of a kernel that transforms a tensor.
    """

    gemm: GemmRates
    fractions: Fractions
    stream_bytes_per_s: float
    kernel_start_s: float


def has_fractions(architecture: str | None, precision: str) -> bool:
    """Whether convolutions in a precision were measured on this generation of GPUs."""
    return (architecture, precision not in CUDA_CORES) in FRACTIONS


def fractions_of(architecture: str | None, precision: str) -> Fractions:
    """The fractions of a generation; Volta's, the latest measured, for one that was not."""
    tensor_cores = precision not in CUDA_CORES
    return FRACTIONS.get((architecture or "", tensor_cores), FRACTIONS["volta", tensor_cores])


def convolution_s(operator: Convolution, rates: ConvolutionRates) -> float:
    """Seconds of the fastest algorithm."""
    traffic_s = operator.elements * rates.gemm.element_bytes / rates.stream_bytes_per_s
    if operator.groups > 1:
        return rates.kernel_start_s + traffic_s
    fraction = rates.fractions.weights if operator.direction == "weights" else rates.fractions.data
    choices = [max(_product_s(implicit_gemm(operator), rates) / fraction, traffic_s)]
    if _allows_winograd(operator, FUSED_WINDOWS):
        choices.append(max(_product_s(winograd_gemm(operator, FUSED_TILE), rates) / fraction, traffic_s))
    if _allows_winograd(operator, WINDOWS):
        transformed_s = transformed_elements(operator) * rates.gemm.element_bytes / rates.stream_bytes_per_s
        product_s = _product_s(winograd_gemm(operator, TILE), rates)
        choices.append(product_s + traffic_s + TRANSFORMED * transformed_s + 3.0 * rates.kernel_start_s)
    return rates.gemm.start_s + min(choices)


def implicit_gemm(operator: Convolution) -> Gemm:
    """The matrix product that a pass is."""
    (height, width, channels), (out_height, out_width, out_channels) = operator.inputs, operator.outputs
    window = operator.kernel[0] * operator.kernel[1]
    places, out_places = operator.images * height * width, operator.images * out_height * out_width
    if operator.direction == "forward":
        return Gemm(out_places, out_channels, channels * window, operator.precision)
    if operator.direction == "inputs":
        return Gemm(places, channels, out_channels * window / operator.stride, operator.precision)
    return Gemm(out_channels, channels * window, out_places, operator.precision)


def winograd_gemm(operator: Convolution, tile: int) -> Gemm:
    """The matrix products between transformed tensors, with ``tile`` x ``tile`` outputs for each."""
    channels, out_channels, tiles = operator.inputs[2], operator.outputs[2], _tiles(operator, tile)
    shape = {
        "forward": (tiles, out_channels, channels),
        "inputs": (tiles, channels, out_channels),
        "weights": (out_channels, channels, tiles),
    }[operator.direction]
    return Gemm(*shape, operator.precision, count=(tile + operator.kernel[0] - 1) ** 2)


def transformed_elements(operator: Convolution) -> float:
    """Numbers in the transformed inputs, outputs and weights together."""
    channels, out_channels = operator.inputs[2], operator.outputs[2]
    matrices = (TILE + operator.kernel[0] - 1) ** 2
    return float(matrices * (_tiles(operator, TILE) * (channels + out_channels) + channels * out_channels))


def _tiles(operator: Convolution, tile: int) -> int:
    height, width = operator.outputs[:2]
    return operator.images * math.ceil(height / tile) * math.ceil(width / tile)


def _allows_winograd(operator: Convolution, windows: tuple[int, ...]) -> bool:
    height, width = operator.kernel
    fits = operator.stride == 1 and height == width and height in windows
    return fits and operator.precision in CUDA_CORES


def _product_s(gemm: Gemm, rates: ConvolutionRates) -> float:
    """Seconds of the arithmetic of a matrix product: memory and start count elsewhere."""
    arithmetic = replace(rates.gemm, memory_bytes_per_s=math.inf, start_s=0.0, vector_start_s=0.0)
    return float(gemm_s(gemm, arithmetic))
