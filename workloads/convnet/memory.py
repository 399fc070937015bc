"""Memory of a rank of a convolutional network.

Activations are the tensors that the forward pass keeps, and the two largest gradients of activations, of which one is
read and one written at a time. cuDNN's workspaces are not counted. A parameter server keeps its variables and the sums
of their gradients in host memory.
"""

from __future__ import annotations

import numpy as np

from simulator.operators import FloatArray
from simulator.precisions import BYTES_PER_ELEMENT
from workloads.convnet.block_plan import Weights
from workloads.convnet.layers import Network
from workloads.convnet.out_of_core import OutOfCore
from workloads.convnet.parameter_servers import placed
from workloads.convnet.settings import ConvnetSettings
from workloads.convnet.training_pass import IMAGE_BYTES
from workloads.graph.buckets import GRADIENT_BYTES
from workloads.graph.memory import MemoryUse, Tier
from workloads.graph.optimizers import DENSE_STATE

GRADIENTS_AT_ONCE = 2
"""Gradients of activations at a time: of a layer's output and of its input."""


def memory_per_rank(network: Network, settings: ConvnetSettings, job: OutOfCore | None = None) -> MemoryUse:
    """Bytes that every rank keeps.

    Args:
        job: a plan for blocks; their item is then the peak of its schedule, with their weights if these are swapped.
    """
    weights = "keep" if job is None else job.weights
    device, host = _device_items(network, settings, weights), _host_items(network, settings, weights)
    kept = (network.kept_elements - network.image.elements) * _image_bytes(settings)
    device["activations"] += kept if job is None else job.schedule.peak_bytes
    if job is not None:
        host["swapped activations"] = job.schedule.out_bytes
    items: dict[Tier, dict[str, float | FloatArray]] = {"hbm": {**device}, "ddr": host, "ssd": {}}
    everywhere = np.ones(settings.world_size)
    return MemoryUse({tier: {name: everywhere * size for name, size in found.items()} for tier, found in items.items()})


def room_for_blocks(network: Network, settings: ConvnetSettings, weights: Weights, device_bytes: float) -> float:
    """Device memory that is left for tensors of blocks, and for their weights if these are swapped, bytes."""
    return device_bytes - sum(_device_items(network, settings, weights).values())


def _image_bytes(settings: ConvnetSettings) -> float:
    """Bytes of a number of each image of a rank."""
    return float(settings.images_per_rank * BYTES_PER_ELEMENT[settings.precision])


def _device_items(network: Network, settings: ConvnetSettings, weights: Weights) -> dict[str, float]:
    """Bytes in device memory beside tensors of blocks: of activations, the images and gradients at work."""
    largest = max(layer.output.elements for layer in network.layers)
    parameters = float(network.parameters * GRADIENT_BYTES)
    buffered = settings.strategy.startswith("horovod") and settings.strategy != "horovod_mpi"
    held = parameters if weights == "keep" else 0.0
    return {
        "weights": held + network.statistics * GRADIENT_BYTES,
        "optimizer state": held * DENSE_STATE[settings.optimizer],
        "gradients": held,
        "activations": (network.image.elements + GRADIENTS_AT_ONCE * largest) * _image_bytes(settings),
        "communication buffers": min(settings.fusion_bytes, parameters)
        if buffered and settings.world_size > 1
        else 0.0,
        "inputs in flight": _input_bytes(network, settings),
        "framework reserve": settings.reserve_bytes,
    }


def _host_items(network: Network, settings: ConvnetSettings, weights: Weights) -> dict[str, float | FloatArray]:
    """Bytes in host memory beside swapped tensors."""
    served = _served_bytes(network, settings)
    parameters = float(network.parameters * GRADIENT_BYTES)
    swapped = parameters if weights == "swap" else 0.0
    summed = settings.strategy == "horovod_mpi" and settings.world_size > 1
    buffers = min(settings.fusion_bytes, parameters) + (parameters - swapped)
    return {
        "weights": served + swapped,
        **({"optimizer state": swapped * DENSE_STATE[settings.optimizer]} if swapped else {}),
        "gradients": served + swapped,
        "communication buffers": buffers if summed else 0.0,
        "inputs in flight": _input_bytes(network, settings),
    }


def _input_bytes(network: Network, settings: ConvnetSettings) -> float:
    if settings.images != "from_host":
        return 0.0
    return float(network.image.elements * settings.images_per_rank * IMAGE_BYTES)


def _served_bytes(network: Network, settings: ConvnetSettings) -> FloatArray:
    """Bytes of the variables of the parameter server beside each rank ``[P]``, 0 where there is none."""
    found = np.zeros(settings.world_size)
    if settings.uses_servers and settings.world_size > 1:
        server_of = placed(network.variables, settings.servers)
        for variable in network.variables:
            rank = server_of[variable.name] * settings.local_world_size
            found[rank] += variable.elements * GRADIENT_BYTES
    return found
