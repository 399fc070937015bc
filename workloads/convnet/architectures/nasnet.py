"""NASNet-A (Zoph et al., arXiv:1707.07012), large: 6 cells of each size, 4032 channels at the end.

A cell reads the outputs of the two cells before it. tf_cnn_benchmarks adds an auxiliary classifier in training, which
the published counts leave out.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.convnet.builder import NetworkBuilder, Tensor
from workloads.convnet.layers import Network

CELLS = 6
"""Normal cells of each resolution."""
LAST_CHANNELS = 4032
STEM_CHANNELS = 96
CHANNELS_OF_LAST = 24
"""Channels of the last cells over those of the first: 6 tensors side by side, doubled twice."""


def nasnet_large(*, image_size: int = 331, classes: int = 1000) -> Network:
    """NASNet-A 6 @ 4032."""
    net = NetworkBuilder("nasnet_large", image_size)
    cells, width = _Cells(net), LAST_CHANNELS // CHANNELS_OF_LAST
    stem = net.conv_bn(net.images, STEM_CHANNELS, 3, stride=2, padding="valid", relu=False)
    before, x = stem, cells.reduction(stem, stem, width // 4)
    before, x = x, cells.reduction(x, before, width // 2)
    for number in range(3):
        if number:
            x = cells.reduction(x, before, width << number)  # the cell after it reads the one before the reduction
        for _ in range(CELLS):
            before, x = x, cells.normal(x, before, width << number)
    net.dense(net.dropout(net.mean(net.relu(x))), classes)
    return net.build()


@dataclass(frozen=True, slots=True)
class _Cells:
    net: NetworkBuilder

    def normal(self, x: Tensor, before: Tensor, width: int) -> Tensor:
        """A cell that keeps the resolution (figure 4 of the paper, left)."""
        net, p, h = self.net, self._fitted(before, x, width), self._squeezed(x, width)
        return net.concat(
            p,
            net.add(self._separable(h, width, 5), self._separable(p, width, 3)),
            net.add(self._separable(p, width, 5), self._separable(p, width, 3)),
            net.add(self._averaged(h), p),
            net.add(self._averaged(p), self._averaged(p)),
            net.add(self._separable(h, width, 3), h),
        )

    def reduction(self, x: Tensor, before: Tensor, width: int) -> Tensor:
        """A cell that halves the resolution (figure 4 of the paper, right)."""
        net, p, h = self.net, self._fitted(before, x, width), self._squeezed(x, width)
        first = net.add(self._separable(h, width, 5, 2), self._separable(p, width, 7, 2))
        second = net.add(net.max_pool(h, 3, stride=2, padding="same"), self._separable(p, width, 7, 2))
        third = net.add(net.avg_pool(h, 3, stride=2, padding="same"), self._separable(p, width, 5, 2))
        fourth = net.add(second, self._averaged(first))
        fifth = net.add(self._separable(first, width, 3), net.max_pool(h, 3, stride=2, padding="same"))
        return net.concat(second, third, fourth, fifth)

    def _separable(self, x: Tensor, width: int, kernel: int, stride: int = 1) -> Tensor:
        """Twice: ReLU, each channel by itself, all channels of a place, batch normalisation."""
        for step in (stride, 1):
            deep = self.net.depthwise(self.net.relu(x), kernel, stride=step)
            x = self.net.batch_norm(self.net.conv(deep, width, 1))
        return x

    def _averaged(self, x: Tensor) -> Tensor:
        return self.net.avg_pool(x, 3, stride=1, padding="same")

    def _squeezed(self, x: Tensor, width: int) -> Tensor:
        return self.net.batch_norm(self.net.conv(self.net.relu(x), width, 1))

    def _fitted(self, before: Tensor, x: Tensor, width: int) -> Tensor:
        """The output of the cell before in the resolution of ``x`` and ``width`` channels; the images' as it is."""
        if before.number == x.number:
            return before
        if before.shape.height != x.shape.height:
            active = self.net.relu(before)
            halves = [self.net.conv(self.net.avg_pool(active, 1, stride=2), width // 2, 1) for _ in range(2)]
            return self.net.batch_norm(self.net.concat(*halves))
        return before if before.shape.channels == width else self._squeezed(before, width)
