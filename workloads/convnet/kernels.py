"""Kernels of a layer: the forward pass, and the backward pass in the order in which gradients become known.

Counted once each: a convolution or matrix product and its two gradients; layers that only move memory read and write
their tensors. Batch normalisation reads its input twice, for the statistics and for the result, and its backward pass
reads input and gradient twice. Nothing is fused, as in TensorFlow 1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from simulator.operators import Convolution, ConvolutionPass, Elementwise, Gemm
from simulator.precisions import BYTES_PER_ELEMENT, Precision
from workloads.convnet.layers import IMAGES, Layer, Network

LayerWork: TypeAlias = Convolution | Gemm | Elementwise
"""Work of a layer's kernel."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a layer.

    Attributes:
        part: ending of the task's name after the layer's; empty: none.
        makes_gradients: whether the gradients of the layer's variables are known after it.
    """

    part: str
    work: LayerWork
    makes_gradients: bool = False

    @property
    def continues(self) -> bool:
        """Whether it is of the same operator as the kernel before."""
        return self.part == "inputs"


@dataclass(frozen=True, slots=True)
class ImageBatch:
    """Images that a rank processes at once, and the numbers it computes with."""

    images: int
    precision: Precision

    @property
    def element_bytes(self) -> int:
        """Size of a number in memory."""
        return BYTES_PER_ELEMENT[self.precision]

    def bytes_of(self, elements: int) -> float:
        """Size of a tensor with so many numbers for each image."""
        return float(elements * self.images * self.element_bytes)


_FORWARD: dict[str, tuple[int, int]] = {
    "bias": (1, 1), "batch_norm": (2, 1), "relu": (1, 1), "add": (1, 1), "concat": (1, 1), "max_pool": (1, 1),
    "avg_pool": (1, 1), "mean": (1, 1), "dropout": (1, 2),
}  # fmt: skip
"""Times that the forward pass reads all inputs, and writes the output (dropout: and its mask)."""


def forward_kernels(layer: Layer, batch: ImageBatch, passed_bytes: float = 0.0) -> Iterator[Kernel]:
    """The forward pass of a layer.

    Args:
        passed_bytes: bytes of its output that only the next kernel reads.
    """
    if layer.kind == "conv":
        yield Kernel("", _convolution(layer, batch, "forward"))
    elif layer.kind == "dense":
        inputs, outputs = layer.shapes[0].elements, layer.output.elements
        yield Kernel("", Gemm(batch.images, outputs, inputs, batch.precision))
    else:
        reads, writes = _FORWARD[layer.kind]
        read, written = batch.bytes_of(layer.input_elements), batch.bytes_of(layer.output.elements)
        moved = Elementwise(reads * read, writes * written, next_read_bytes=passed_bytes, next_only_bytes=passed_bytes)
        yield Kernel("", moved)


def backward_kernels(layer: Layer, batch: ImageBatch) -> Iterator[Kernel]:
    """The backward pass of a layer; the gradient of its output is there."""
    if layer.kind in ("conv", "dense"):
        yield from _products(layer, batch)
        return
    inputs, output = batch.bytes_of(layer.input_elements), batch.bytes_of(layer.output.elements)
    moved: dict[str, tuple[float, float]] = {
        "bias": (output, 0.0),
        "batch_norm": (2.0 * inputs + 2.0 * output, inputs),
        "relu": (2.0 * output, inputs),
        "concat": (output, inputs),
        "max_pool": (inputs + 2.0 * output, inputs),
        "avg_pool": (output, inputs),
        "mean": (output, inputs),
        "dropout": (2.0 * output, inputs),
    }
    if layer.kind in moved:  # the gradient of a sum is that of its output: nothing moves
        yield Kernel("backward", Elementwise(*moved[layer.kind]), makes_gradients=bool(layer.variables))


def forward_order(network: Network, numbers: Collection[int], batch: ImageBatch) -> Iterator[tuple[Layer, Kernel]]:
    """Kernels of the forward pass of some layers."""
    readers = network.readers
    for number in numbers:
        layer = network.layers[number]
        passes = readers[number] == 1 and number + 1 in numbers and _needs_no_input(network, number + 1)
        passed_bytes = batch.bytes_of(layer.output.elements) if passes else 0.0
        yield from ((layer, kernel) for kernel in forward_kernels(layer, batch, passed_bytes))


def _needs_no_input(network: Network, number: int) -> bool:
    """Whether a layer's gradient is computed without its input, which is the output of the layer before it."""
    layer = network.layers[number]
    return layer.kind == "relu" and layer.inputs == (number - 1,)


def backward_order(
    network: Network, numbers: range, batch: ImageBatch, gradients: Mapping[int, int]
) -> Iterator[tuple[Layer, Kernel]]:
    """Kernels of the backward pass of some layers, sums of gradients included.

    Args:
        gradients: number of gradients that come together for each layer's output; several are added up, those of
            layers outside ``numbers`` at the end.
    """
    for number in reversed(numbers):
        layer = network.layers[number]
        yield from _sums(network, number, batch, gradients)
        yield from ((layer, kernel) for kernel in backward_kernels(layer, batch))
    for number in sorted(gradients):
        if number not in numbers and number != IMAGES:
            yield from _sums(network, number, batch, gradients)


def _sums(
    network: Network, number: int, batch: ImageBatch, gradients: Mapping[int, int]
) -> Iterator[tuple[Layer, Kernel]]:
    """Sum of the gradients of a tensor that several layers read."""
    readers, size = gradients.get(number, 0), batch.bytes_of(network.elements(number))
    if readers > 1:
        yield network.layers[number], Kernel("sum", Elementwise(readers * size, size))


def loss(classes: int, batch: ImageBatch) -> Elementwise:
    """Softmax, cross entropy and the gradient of the last layer's output."""
    size = batch.bytes_of(classes)
    return Elementwise(2.0 * size, 2.0 * size)


def _products(layer: Layer, batch: ImageBatch) -> Iterator[Kernel]:
    """Gradients of the weights, then of the inputs unless these are the images."""
    inputs, outputs, images = layer.shapes[0].elements, layer.output.elements, batch.images
    if layer.kind == "conv":
        weights: LayerWork = _convolution(layer, batch, "weights")
        data: LayerWork = _convolution(layer, batch, "inputs")
    else:
        weights = Gemm(inputs, outputs, images, batch.precision, transposed=True)
        data = Gemm(images, inputs, outputs, batch.precision)
    yield Kernel("weights", weights, makes_gradients=True)
    if layer.inputs[0] != IMAGES:
        yield Kernel("inputs", data)


def _convolution(layer: Layer, batch: ImageBatch, direction: ConvolutionPass) -> Convolution:
    inputs, outputs = ((shape.height, shape.width, shape.channels) for shape in (layer.shapes[0], layer.output))
    return Convolution(
        batch.images, inputs, outputs, layer.kernel, layer.stride, layer.groups, batch.precision, direction
    )
