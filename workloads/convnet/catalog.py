"""Networks by name.

Names are those of tf_cnn_benchmarks where it has the network in this form: ``resnet50`` is version 1 (stride in the
first convolution of a stage), ``inception3`` has no auxiliary classifier and no scale in batch normalisation.
``alexnet`` is torchvision's; tf_cnn_benchmarks' own is ``alexnet_tf``. tf_cnn_benchmarks' ``mobilenet`` is version 2,
and it counts 1,001 classes, of which one is the background.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from inputs.errors import InputError, nearest_name
from workloads.convnet.architectures.inception import inception3
from workloads.convnet.architectures.nasnet import nasnet_large
from workloads.convnet.architectures.plain import alexnet, alexnet_tf, mobilenet_v1, vgg16
from workloads.convnet.architectures.resnet import resnet
from workloads.convnet.layers import Network

NETWORKS: dict[str, Callable[..., Network]] = {
    "alexnet": alexnet,
    "alexnet_tf": alexnet_tf,
    "inception3": inception3,
    "mobilenet_v1": mobilenet_v1,
    "nasnet_large": nasnet_large,
    "resnet50": partial(resnet, 50, "1"),
    "resnet50_v1.5": partial(resnet, 50, "1.5"),
    "resnet101": partial(resnet, 101, "1"),
    "resnet101_v1.5": partial(resnet, 101, "1.5"),
    "resnet152": partial(resnet, 152, "1"),
    "resnet152_v1.5": partial(resnet, 152, "1.5"),
    "vgg16": vgg16,
}


@cache
def network(name: str, classes: int = 1000, *, key: str = "workload.model") -> Network:
    """The network of a name.

    Args:
        classes: outputs of the last layer.
        key: key of the name, for messages.

    Raises:
        InputError: no network has this name.
    """
    if name not in NETWORKS:
        raise InputError(
            "no such network",
            key=key,
            given=name,
            expected=f"one of {', '.join(NETWORKS)}",
            nearest=nearest_name(name, NETWORKS),
        )
    return NETWORKS[name](classes=classes)
