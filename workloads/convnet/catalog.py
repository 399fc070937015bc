"""Networks by name.

Names are those of tf_cnn_benchmarks where it has the network in this form: ``resnet50`` is version 1 (stride in the
first convolution of a stage), ``inception3`` has no auxiliary classifier and no scale in batch normalisation.
``alexnet`` is torchvision's; tf_cnn_benchmarks' own is ``alexnet_tf``. tf_cnn_benchmarks' ``mobilenet`` is version 2,
and it counts 1,001 classes, of which one is the background. ResNets for images of CIFAR are named by depth and version.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial

from inputs.errors import InputError, nearest_name
from workloads.convnet.architectures.inception import inception3
from workloads.convnet.architectures.nasnet import nasnet_large
from workloads.convnet.architectures.plain import alexnet, alexnet_tf, mobilenet_v1, vgg16
from workloads.convnet.architectures.resnet import resnet
from workloads.convnet.architectures.resnet_cifar import LAYERS_OF_A_BLOCK, cifar_resnet, has_depth
from workloads.convnet.layers import Network

MODEL_KEY = "workload.model"

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


BY_DEPTH = re.compile(r"resnet([1-9][0-9]{0,4})_v([12])")
"""Names of ResNets by depth: ``resnet1001_v2``."""

LISTED_DEPTHS = ("resnet110_v1", "resnet164_v2", "resnet1001_v2", "resnet5000_v1")
"""Networks by depth that lists name; any depth has one."""


def names() -> tuple[str, ...]:
    """Names for lists of networks."""
    return (*NETWORKS, *LISTED_DEPTHS)


@cache
def network(name: str, classes: int | None = None, image_size: int | None = None, *, key: str = MODEL_KEY) -> Network:
    """The network of a name.

    Args:
        classes: outputs of the last layer; None: those of its own data set.
        image_size: places on each side of an image; None: those of its own data set.
        key: key of the name, for messages.

    Raises:
        InputError: no network has this name or depth, or the image is too small for it.
    """
    given = {"classes": classes, "image_size": image_size}
    return _builder(name, key)(**{part: size for part, size in given.items() if size is not None})


def _builder(name: str, key: str) -> Callable[..., Network]:
    """Builder of a network; raises as `network`."""
    by_depth = BY_DEPTH.fullmatch(name)
    if by_depth is not None:
        depth, version = int(by_depth[1]), by_depth[2]
        if not has_depth(depth, version):
            raise _no_such_depth(name, depth, version, key)
        return partial(cifar_resnet, depth, version)
    if name not in NETWORKS:
        raise InputError(
            "no such network",
            key=key,
            given=name,
            expected=f"one of {', '.join(names())}, or a ResNet of another depth",
            nearest=nearest_name(name, names()),
        )
    return NETWORKS[name]


def _no_such_depth(name: str, depth: int, version: str, key: str) -> InputError:
    step = LAYERS_OF_A_BLOCK[version]
    nearest = max(round((depth - 2) / step), 1) * step + 2
    return InputError(
        f"ResNets of version {version} have {step} n + 2 layers",
        key=key,
        given=name,
        expected=f"a depth of {step} n + 2 with n = 1, 2, ...",
        nearest=f"resnet{nearest}_v{version}",
    )
