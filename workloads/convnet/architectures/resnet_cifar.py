"""ResNet for small images, by depth: the two networks of Keras' example ``cifar10_resnet.py``.

Version 1 (He et al., arXiv:1512.03385, section 4.2): three stages of n blocks of two 3 x 3 convolutions with 16, 32 and
64 channels, 6 n + 2 layers. Version 2 (arXiv:1603.05027): three stages of n bottleneck blocks, each convolution after
its batch normalisation and ReLU, 9 n + 2 layers; Keras' blocks end in 64, 128 and 256 channels. Convolutions have
biases. A stage after the first halves the resolution in its first block, whose shortcut is a 1 x 1 convolution; so is
that of version 2's first stage.
"""

from __future__ import annotations

from collections.abc import Callable

from workloads.convnet.builder import NetworkBuilder, Tensor
from workloads.convnet.layers import Network

IMAGE_SIZE = 32
"""Places on each side of an image of CIFAR."""

STAGES = 3

LAYERS_OF_A_BLOCK = {"1": 6, "2": 9}
"""Layers that a block in each of the stages adds, by version; two are outside all blocks."""


def has_depth(depth: int, version: str) -> bool:
    """Whether the version has a network of so many layers."""
    blocks, rest = divmod(depth - 2, LAYERS_OF_A_BLOCK[version])
    return blocks >= 1 and rest == 0


def cifar_resnet(depth: int, version: str, *, image_size: int = IMAGE_SIZE, classes: int = 10) -> Network:
    """ResNet of a depth that `has_depth` allows."""
    net = NetworkBuilder(f"resnet{depth}_v{version}", image_size)
    blocks = (depth - 2) // LAYERS_OF_A_BLOCK[version]
    stages: dict[str, Callable[[NetworkBuilder, Tensor, int], Tensor]] = {"1": _plain_stages, "2": _bottleneck_stages}
    x = net.conv_bn(net.images, 16, 3, bias=True)
    x = stages[version](net, x, blocks)
    net.dense(net.mean(x), classes)
    return net.build()


def _plain_stages(net: NetworkBuilder, x: Tensor, blocks: int) -> Tensor:
    """Blocks of version 1."""
    for stage in range(STAGES):
        width = 16 * 2**stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            y = net.conv_bn(x, width, 3, stride=stride, bias=True)
            y = net.conv_bn(y, width, 3, bias=True, relu=False)
            shortcut = net.conv(x, width, 1, stride=stride, bias=True) if stride > 1 else x
            x = net.relu(net.add(shortcut, y))
    return x


def _bottleneck_stages(net: NetworkBuilder, x: Tensor, blocks: int) -> Tensor:
    """Blocks of version 2, and the batch normalisation and ReLU behind the last one."""
    for stage in range(STAGES):
        width, output = (16, 64) if stage == 0 else (64 * 2 ** (stage - 1), 64 * 2**stage)
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            first = stage == 0 and block == 0  # the network's first layers normalise its input
            y = net.conv(x if first else _normalised(net, x), width, 1, stride=stride, bias=True)
            y = net.conv(_normalised(net, y), width, 3, bias=True)
            y = net.conv(_normalised(net, y), output, 1, bias=True)
            shortcut = net.conv(x, output, 1, stride=stride, bias=True) if block == 0 else x
            x = net.add(shortcut, y)
    return _normalised(net, x)


def _normalised(net: NetworkBuilder, x: Tensor) -> Tensor:
    return net.relu(net.batch_norm(x))
