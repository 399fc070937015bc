"""Builder of networks: layers are added one after the other, shapes follow from each other.

Padding is ``same`` (as many places as input places over the stride, rounded up), ``valid`` (none), or a number of
places on each side.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeAlias

from inputs.errors import InputError
from workloads.convnet.layers import IMAGES, Layer, LayerKind, Network, Shape, Variable

Padding: TypeAlias = Literal["same", "valid"] | int
Window: TypeAlias = int | tuple[int, int]
"""Height and width, or both alike."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """The output of a layer while the network is built."""

    number: int
    shape: Shape


class NetworkBuilder:
    """Collects layers; methods take tensors and return the new layer's output.

    They raise an `InputError` where the image is too small for a window.
    """

    def __init__(self, name: str, image_size: int) -> None:
        """Start a network for square colour images of so many places on each side."""
        self._name, self._image = name, Shape(image_size, image_size, 3)
        self._layers: list[Layer] = []
        self._count: Counter[str] = Counter()

    @property
    def images(self) -> Tensor:
        """The input."""
        return Tensor(IMAGES, self._image)

    def build(self) -> Network:
        """The network."""
        return Network(self._name, self._image, tuple(self._layers))

    def conv(
        self,
        x: Tensor,
        channels: int,
        kernel: Window,
        *,
        stride: int = 1,
        padding: Padding = "same",
        bias: bool = False,
    ) -> Tensor:
        """A convolution of all channels."""
        window = _window(kernel)
        weights = window[0] * window[1] * x.shape.channels * channels
        output = _moved(x.shape, window, stride, padding, channels)
        y = self._add("conv", (x,), output, {"weights": weights}, kernel=window, stride=stride)
        return self._add("bias", (y,), output, {"biases": channels}) if bias else y

    def depthwise(self, x: Tensor, kernel: Window, *, stride: int = 1, padding: Padding = "same") -> Tensor:
        """A convolution of each channel by itself."""
        window, channels = _window(kernel), x.shape.channels
        output = _moved(x.shape, window, stride, padding, channels)
        weights = {"depthwise_weights": window[0] * window[1] * channels}
        return self._add("conv", (x,), output, weights, kernel=window, stride=stride, groups=channels)

    def batch_norm(self, x: Tensor, *, scale: bool = True) -> Tensor:
        """Batch normalisation with a shift, and with a scale unless the next layer makes up for it."""
        channels = x.shape.channels
        variables = {"gamma": channels, "beta": channels} if scale else {"beta": channels}
        return self._add("batch_norm", (x,), x.shape, variables, statistics=2 * channels)

    def relu(self, x: Tensor) -> Tensor:
        """A rectified linear unit."""
        return self._add("relu", (x,), x.shape)

    def dropout(self, x: Tensor) -> Tensor:
        """Dropout."""
        return self._add("dropout", (x,), x.shape)

    def add(self, *inputs: Tensor) -> Tensor:
        """The sum of tensors."""
        return self._add("add", inputs, inputs[0].shape)

    def concat(self, *inputs: Tensor) -> Tensor:
        """Channels of several tensors side by side."""
        first = inputs[0].shape
        channels = sum(x.shape.channels for x in inputs)
        return self._add("concat", inputs, Shape(first.height, first.width, channels))

    def max_pool(self, x: Tensor, kernel: Window, *, stride: int, padding: Padding = "valid") -> Tensor:
        """The largest number of each window."""
        return self._pool("max_pool", x, kernel, stride, padding)

    def avg_pool(self, x: Tensor, kernel: Window, *, stride: int, padding: Padding = "valid") -> Tensor:
        """The mean of each window."""
        return self._pool("avg_pool", x, kernel, stride, padding)

    def mean(self, x: Tensor) -> Tensor:
        """The mean of each channel."""
        return self._add("mean", (x,), Shape(1, 1, x.shape.channels))

    def dense(self, x: Tensor, outputs: int) -> Tensor:
        """A linear layer over all numbers of an image, with biases."""
        shape = Shape(1, 1, outputs)
        y = self._add("dense", (x,), shape, {"weights": x.shape.elements * outputs})
        return self._add("bias", (y,), shape, {"biases": outputs})

    def conv_bn(
        self,
        x: Tensor,
        channels: int,
        kernel: Window,
        *,
        stride: int = 1,
        padding: Padding = "same",
        scale: bool = True,
        relu: bool = True,
        bias: bool = False,
    ) -> Tensor:
        """A convolution, batch normalisation and, unless left out, a ReLU."""
        y = self.conv(x, channels, kernel, stride=stride, padding=padding, bias=bias)
        y = self.batch_norm(y, scale=scale)
        return self.relu(y) if relu else y

    def _pool(
        self, kind: Literal["max_pool", "avg_pool"], x: Tensor, kernel: Window, stride: int, padding: Padding
    ) -> Tensor:
        window = _window(kernel)
        output = _moved(x.shape, window, stride, padding, x.shape.channels)
        return self._add(kind, (x,), output, kernel=window, stride=stride)

    def _add(
        self,
        kind: LayerKind,
        inputs: tuple[Tensor, ...],
        output: Shape,
        variables: dict[str, int] | None = None,
        *,
        statistics: int = 0,
        kernel: tuple[int, int] = (1, 1),
        stride: int = 1,
        groups: int = 1,
    ) -> Tensor:
        if min(output.height, output.width) < 1:
            raise InputError(
                f"a {kind} of {self._name} has nothing left of so small an image",
                key="workload.image_size",
                given=self._image.height,
                expected="a larger size, or no such key: that of the network's own data set",
            )
        name = f"{kind}_{self._count[kind]}"
        self._count[kind] += 1
        made = tuple(Variable(f"{name}/{part}", elements) for part, elements in (variables or {}).items())
        numbers, shapes = tuple(x.number for x in inputs), tuple(x.shape for x in inputs)
        self._layers.append(Layer(name, kind, numbers, shapes, output, made, statistics, kernel, stride, groups))
        return Tensor(len(self._layers) - 1, output)


def _window(kernel: Window) -> tuple[int, int]:
    return kernel if isinstance(kernel, tuple) else (kernel, kernel)


def _moved(shape: Shape, window: tuple[int, int], stride: int, padding: Padding, channels: int) -> Shape:
    """Shape of what a window that moves over a tensor gives."""
    sides = zip((shape.height, shape.width), window, strict=True)
    height, width = (_places(side, size, stride, padding) for side, size in sides)
    return Shape(height, width, channels)


def _places(side: int, window: int, stride: int, padding: Padding) -> int:
    if padding == "same":
        return -(-side // stride)
    around = 0 if padding == "valid" else 2 * padding
    return (side + around - window) // stride + 1
