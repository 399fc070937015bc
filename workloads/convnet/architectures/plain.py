"""Networks without branches: VGG-16, AlexNet, MobileNet-v1."""

from __future__ import annotations

from workloads.convnet.builder import NetworkBuilder, Tensor
from workloads.convnet.layers import Network

VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
"""Channels of the convolutions of VGG-16; 0: a pooling (configuration D of arXiv:1409.1556)."""

MOBILENET = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *(5 * ((512, 1),)), (1024, 2), (1024, 1),
)  # fmt: skip
"""Channels and stride of the separable convolutions of MobileNet-v1 (table 1 of arXiv:1704.04861)."""


def vgg16(*, image_size: int = 224, classes: int = 1000) -> Network:
    """VGG-16 (Simonyan and Zisserman, arXiv:1409.1556), as torchvision and tf_cnn_benchmarks have it."""
    net = NetworkBuilder("vgg16", image_size)
    x = net.images
    for channels in VGG16:
        x = net.relu(net.conv(x, channels, 3, bias=True)) if channels else net.max_pool(x, 2, stride=2)
    return _classified(net, x, classes, dropout_first=False)


def alexnet(*, image_size: int = 224, classes: int = 1000) -> Network:
    """AlexNet with one tower (Krizhevsky, arXiv:1404.5997), as torchvision has it."""
    net = NetworkBuilder("alexnet", image_size)
    return _one_tower(net, (192, 384, 256, 256), 2, classes, dropout_first=True)


def alexnet_tf(*, image_size: int = 227, classes: int = 1000) -> Network:
    """AlexNet of tf_cnn_benchmarks: 384 channels in the fourth convolution, images with 3 places of padding."""
    return _one_tower(NetworkBuilder("alexnet_tf", image_size), (192, 384, 384, 256), 0, classes, dropout_first=False)


def _one_tower(
    net: NetworkBuilder, channels: tuple[int, int, int, int], padding: int, classes: int, *, dropout_first: bool
) -> Network:
    x = net.relu(net.conv(net.images, 64, 11, stride=4, padding=padding, bias=True))
    x = net.max_pool(x, 3, stride=2)
    x = net.relu(net.conv(x, channels[0], 5, bias=True))
    x = net.max_pool(x, 3, stride=2)
    for width in channels[1:]:
        x = net.relu(net.conv(x, width, 3, bias=True))
    return _classified(net, net.max_pool(x, 3, stride=2), classes, dropout_first=dropout_first)


def _classified(net: NetworkBuilder, x: Tensor, classes: int, *, dropout_first: bool) -> Network:
    """Two layers of 4096 with dropout, before each (torchvision's AlexNet) or after each, and one per class."""
    for _ in range(2):
        x = net.relu(net.dense(net.dropout(x), 4096)) if dropout_first else net.dropout(net.relu(net.dense(x, 4096)))
    net.dense(x, classes)
    return net.build()


def mobilenet_v1(*, image_size: int = 224, classes: int = 1000) -> Network:
    """MobileNet-v1 (Howard et al., arXiv:1704.04861) of full width."""
    net = NetworkBuilder("mobilenet_v1", image_size)
    x = net.conv_bn(net.images, 32, 3, stride=2)
    for channels, stride in MOBILENET:
        x = net.relu(net.batch_norm(net.depthwise(x, 3, stride=stride)))
        x = net.conv_bn(x, channels, 1)
    net.dense(net.mean(x), classes)
    return net.build()
