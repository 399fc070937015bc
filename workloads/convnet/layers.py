"""Layers of convolutional networks, and the network that they make.

A layer knows the shapes of one image's tensors, from which parameters, multiply-adds and bytes follow; a batch
multiplies them. Layers are numbered in forward order, and each names the layers whose outputs it reads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeAlias

IMAGES = -1
"""Number that stands for the input images where a layer names the layers that it reads."""

LayerKind: TypeAlias = Literal[
    "conv", "dense", "bias", "batch_norm", "relu", "add", "concat", "max_pool", "avg_pool", "mean", "dropout"
]


@dataclass(frozen=True, slots=True)
class Shape:
    """One image's tensor."""

    height: int
    width: int
    channels: int

    @property
    def pixels(self) -> int:
        """Places of a channel."""
        return self.height * self.width

    @property
    def elements(self) -> int:
        """Numbers in the tensor."""
        return self.pixels * self.channels


@dataclass(frozen=True, slots=True)
class Variable:
    """A trainable tensor: it has a gradient of its own, which is exchanged on its own unless tensors are fused."""

    name: str
    elements: int


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of one image.

    Attributes:
        inputs: numbers of the layers whose outputs it reads; `IMAGES`: the images.
        shapes: their shapes.
        variables: its trainable tensors, in the order of their creation.
        statistics: numbers that training keeps but has no gradients of (moving means and variances).
        kernel: height and width of the window of a convolution or pooling.
        stride: step of the window.
        groups: parts into which the channels of a convolution fall; as many as it has inputs: depthwise.
    """

    name: str
    kind: LayerKind
    inputs: tuple[int, ...]
    shapes: tuple[Shape, ...]
    output: Shape
    variables: tuple[Variable, ...] = ()
    statistics: int = 0
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1
    groups: int = 1

    @property
    def parameters(self) -> int:
        """Trainable numbers."""
        return sum(variable.elements for variable in self.variables)

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the forward pass; 0 of layers that are not counted in papers: all but conv and dense."""
        if self.kind == "dense":
            return self.shapes[0].elements * self.output.elements
        if self.kind == "conv":
            height, width = self.kernel
            return self.output.elements * height * width * self.shapes[0].channels // self.groups
        return 0

    @property
    def input_elements(self) -> int:
        """Numbers in all inputs."""
        return sum(shape.elements for shape in self.shapes)


@dataclass(frozen=True, slots=True)
class Network:
    """A convolutional network.

    Attributes:
        image: shape of an input image.
        layers: the layers in forward order.
    """

    name: str
    image: Shape
    layers: tuple[Layer, ...]

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Trainable tensors in the order of their creation."""
        return tuple(variable for layer in self.layers for variable in layer.variables)

    @property
    def parameters(self) -> int:
        """Trainable numbers."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def statistics(self) -> int:
        """Numbers without gradients; Keras counts them as parameters that are not trainable."""
        return sum(layer.statistics for layer in self.layers)

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the forward pass of one image."""
        return sum(layer.multiply_adds for layer in self.layers)

    @property
    def kept_elements(self) -> int:
        """Numbers of one image that the forward pass keeps for the backward pass, see `kept_by`."""
        return self.kept_by(range(len(self.layers)))

    def kept_by(self, numbers: range) -> int:
        """Numbers of one image that some layers keep for their backward pass.

        All that a layer reads again, once if several of the layers do, and the mask of a dropout.
        """
        kept = set[int]().union(*(self.read_again(number) for number in numbers))
        masks = sum(self.elements(number) for number in numbers if self.layers[number].kind == "dropout")
        return masks + sum(self.elements(number) for number in kept)

    def read_again(self, number: int) -> set[int]:
        """Numbers of the tensors that the backward pass of a layer reads, `IMAGES` included.

        Convolutions, matrix products and batch normalisation read their input, a ReLU its output, a max pooling both.
        """
        layer = self.layers[number]
        inputs = set(layer.inputs) if layer.kind in ("conv", "dense", "batch_norm", "max_pool") else set()
        return inputs | ({number} if layer.kind in ("relu", "max_pool") else set())

    def elements(self, number: int) -> int:
        """Numbers in one image's output of a layer, or in the image."""
        return self.image.elements if number == IMAGES else self.layers[number].output.elements

    @property
    def readers(self) -> Counter[int]:
        """Number of layers that read each layer's output: as many gradients of it are added up."""
        return Counter(number for layer in self.layers for number in layer.inputs)
