"""ResNet (He et al., arXiv:1512.03385): bottleneck blocks with shortcuts.

Version 1 halves the resolution in the first 1 x 1 convolution of a stage, as the paper and tf_cnn_benchmarks'
``resnet50`` do; version 1.5 in its 3 x 3 convolution, as torchvision does: the same parameters, more multiply-adds.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from workloads.convnet.builder import NetworkBuilder, Tensor
from workloads.convnet.layers import Network

Version: TypeAlias = Literal["1", "1.5"]

BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Blocks of each stage by number of layers (table 1 of the paper)."""


def resnet(depth: int, version: Version, *, image_size: int = 224, classes: int = 1000) -> Network:
    """ResNet of 50, 101 or 152 layers."""
    net = NetworkBuilder(f"resnet{depth}" + ("_v1.5" if version == "1.5" else ""), image_size)
    x = net.conv_bn(net.images, 64, 7, stride=2, padding=3)
    x = net.max_pool(x, 3, stride=2, padding="same")
    for stage, blocks in enumerate(BLOCKS[depth]):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _bottleneck(net, x, 64 * 2**stage, stride, version)
    net.dense(net.mean(x), classes)
    return net.build()


def _bottleneck(net: NetworkBuilder, x: Tensor, width: int, stride: int, version: Version) -> Tensor:
    """1 x 1 down to ``width`` channels, 3 x 3, 1 x 1 up to four times as many, plus the shortcut."""
    first, second = (stride, 1) if version == "1" else (1, stride)
    shortcut = x
    if x.shape.channels != 4 * width:
        shortcut = net.conv_bn(x, 4 * width, 1, stride=stride, relu=False)
    y = net.conv_bn(x, width, 1, stride=first)
    y = net.conv_bn(y, width, 3, stride=second, padding=1)
    return net.relu(net.add(shortcut, net.conv_bn(y, 4 * width, 1, relu=False)))
