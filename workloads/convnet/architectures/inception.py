"""Inception-v3 (Szegedy et al., arXiv:1512.00567).

tf_cnn_benchmarks and Keras leave the scale out of batch normalisation, torchvision has it; tf_cnn_benchmarks trains
without the auxiliary classifier, which torchvision has.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.convnet.builder import NetworkBuilder, Padding, Tensor, Window
from workloads.convnet.layers import Network


def inception3(*, image_size: int = 299, classes: int = 1000, scale: bool = False, auxiliary: bool = False) -> Network:
    """Inception-v3.

    Args:
        scale: whether batch normalisation has a scale.
        auxiliary: whether the second classifier is trained, too.
    """
    net = NetworkBuilder("inception3", image_size)
    parts = _Parts(net, scale=scale)
    x = parts.conv(net.images, 32, 3, stride=2, padding="valid")
    x = parts.conv(x, 32, 3, padding="valid")
    x = net.max_pool(parts.conv(x, 64, 3), 3, stride=2)
    x = parts.conv(x, 80, 1)
    x = net.max_pool(parts.conv(x, 192, 3, padding="valid"), 3, stride=2)
    for pooled in (32, 64, 64):
        x = parts.block_35(x, pooled)
    x = parts.reduction_17(x)
    for width in (128, 160, 160, 192):
        x = parts.block_17(x, width)
    if auxiliary:
        y = parts.conv(net.avg_pool(x, 5, stride=3), 128, 1)
        net.dense(parts.conv(y, 768, 5, padding="valid"), classes)
    x = parts.reduction_8(x)
    for pool in (net.avg_pool, net.max_pool):
        x = parts.block_8(x, pool(x, 3, stride=1, padding="same"))
    net.dense(net.dropout(net.mean(x)), classes)
    return net.build()


@dataclass(frozen=True, slots=True)
class _Parts:
    """Modules by the side of their output."""

    net: NetworkBuilder
    scale: bool

    def conv(self, x: Tensor, channels: int, kernel: Window, *, stride: int = 1, padding: Padding = "same") -> Tensor:
        return self.net.conv_bn(x, channels, kernel, stride=stride, padding=padding, scale=self.scale)

    def chain(self, x: Tensor, *layers: tuple[int, Window]) -> Tensor:
        for channels, kernel in layers:
            x = self.conv(x, channels, kernel)
        return x

    def pooled(self, x: Tensor, channels: int) -> Tensor:
        return self.conv(self.net.avg_pool(x, 3, stride=1, padding="same"), channels, 1)

    def block_35(self, x: Tensor, pooled: int) -> Tensor:
        return self.net.concat(
            self.chain(x, (64, 1)),
            self.chain(x, (48, 1), (64, 5)),
            self.chain(x, (64, 1), (96, 3), (96, 3)),
            self.pooled(x, pooled),
        )

    def reduction_17(self, x: Tensor) -> Tensor:
        return self.net.concat(
            self.conv(x, 384, 3, stride=2, padding="valid"),
            self.conv(self.chain(x, (64, 1), (96, 3)), 96, 3, stride=2, padding="valid"),
            self.net.max_pool(x, 3, stride=2),
        )

    def block_17(self, x: Tensor, width: int) -> Tensor:
        return self.net.concat(
            self.chain(x, (192, 1)),
            self.chain(x, (width, 1), (width, (1, 7)), (192, (7, 1))),
            self.chain(x, (width, 1), (width, (7, 1)), (width, (1, 7)), (width, (7, 1)), (192, (1, 7))),
            self.pooled(x, 192),
        )

    def reduction_8(self, x: Tensor) -> Tensor:
        seven = self.chain(x, (192, 1), (192, (1, 7)), (192, (7, 1)))
        return self.net.concat(
            self.conv(self.chain(x, (192, 1)), 320, 3, stride=2, padding="valid"),
            self.conv(seven, 192, 3, stride=2, padding="valid"),
            self.net.max_pool(x, 3, stride=2),
        )

    def block_8(self, x: Tensor, pooled: Tensor) -> Tensor:
        two, three = self.chain(x, (384, 1)), self.chain(x, (448, 1), (384, 3))
        ends = [self.conv(y, 384, kernel) for y in (two, three) for kernel in ((1, 3), (3, 1))]
        return self.net.concat(self.chain(x, (320, 1)), *ends, self.conv(pooled, 192, 1))
