"""Networks in partitions that tests share: equal layers, and residual blocks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from hardware_specs import load_cluster
from simulator.collective_calls import CollectiveCall
from simulator.lowering import Machine, build_machine
from simulator.program import Program
from workloads.convnet.builder import NetworkBuilder
from workloads.convnet.layers import Network
from workloads.convnet.settings import ConvnetSettings

IMAGES = 64


def relus(count: int) -> Network:
    """Layers with the same kernels in both passes, and no weights."""
    net = NetworkBuilder("relus", 224)
    x = net.images
    for _ in range(count):
        x = net.relu(x)
    return net.build()


def blocks(count: int) -> Network:
    """A convolution, and blocks of convolution, ReLU, convolution and the sum with the input: 4 layers each."""
    net = NetworkBuilder("blocks", 8)
    x = net.conv(net.images, 16, 3, bias=True)
    for _ in range(count):
        y = net.relu(net.conv(x, 16, 3))
        x = net.add(x, net.conv(y, 16, 3))
    net.dense(net.mean(x), 10)
    return net.build()


def job(layers: tuple[int, ...], replicas: int = 1, **changes: Any) -> ConvnetSettings:
    """Settings of a network with so many layers in each partition."""
    known = {
        "model": "resnet20_v1", "world_size": len(layers) * replicas, "local_world_size": 1, "images_per_rank": IMAGES,
        "strategy": "hypar_mpi", "layers_per_partition": layers, "classes": 10,
    }  # fmt: skip
    return ConvnetSettings(**{**known, **changes})


@cache
def machine(world_size: int, cluster: str = "piz_daint") -> Machine:
    """Ranks of a cluster, a GPU on each node."""
    return build_machine(load_cluster(cluster), world_size, launch_s=5e-6)


def calls(program: Program, op: str) -> dict[str, CollectiveCall]:
    """Calls of an operation by task."""
    pairs = zip(program.names, program.work, strict=True)
    return {name: work for name, work in pairs if isinstance(work, CollectiveCall) and work.op == op}


def passes(program: Program) -> list[int]:
    """Tasks of kernels in passes."""
    streams = np.array([stream.name for stream in program.streams])[program.stream_of]
    found = [number for number, stream in enumerate(streams.tolist()) if stream == "default"]
    return [number for number in found if program.sections[number] in ("forward", "backward")]
