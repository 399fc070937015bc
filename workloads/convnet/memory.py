"""Memory of a rank of a convolutional network.

Activations are the tensors that the forward pass keeps, and the two largest gradients of activations, of which one is
read and one written at a time. cuDNN's workspaces are not counted. A parameter server keeps its variables and the sums
of their gradients in host memory. A rank with a partition of the network keeps what its layers keep, of all
micro-batches in flight, and buffers for the tensors and gradients that a micro-batch receives and sends.
"""

from __future__ import annotations

import numpy as np

from simulator.operators import FloatArray
from workloads.convnet.block_plan import Weights
from workloads.convnet.kernels import ImageBatch
from workloads.convnet.layers import Network
from workloads.convnet.out_of_core import OutOfCore
from workloads.convnet.parameter_servers import placed
from workloads.convnet.partitioned import message_bytes
from workloads.convnet.settings import ConvnetSettings
from workloads.convnet.stages import Partition, partitions_of
from workloads.convnet.training_pass import IMAGE_BYTES
from workloads.graph.buckets import GRADIENT_BYTES
from workloads.graph.memory import MemoryUse, Tier
from workloads.graph.optimizers import DENSE_STATE
from workloads.graph.pipeline_schedule import in_flight

GRADIENTS_AT_ONCE = 2
"""Gradients of activations at a time: of a layer's output and of its input."""


DIRECTIONS = 2
"""Directions of messages between partitions, each with a buffer: tensors forward, gradients backward."""


def memory_per_rank(network: Network, settings: ConvnetSettings, job: OutOfCore | None = None) -> MemoryUse:
    """Bytes that every rank keeps where each has the whole network.

    Args:
        job: a plan for blocks; their item is then the peak of its schedule, with their weights if these are swapped.
    """
    weights = "keep" if job is None else job.weights
    device, host = _device_items(network, settings, weights), _host_items(network, settings, weights)
    kept = (network.kept_elements - network.image.elements) * _batch(settings).bytes_of(1)
    device["activations"] += kept if job is None else job.schedule.peak_bytes
    if job is not None:
        host["swapped activations"] = job.schedule.out_bytes
    items: dict[Tier, dict[str, float | FloatArray]] = {"hbm": {**device}, "ddr": host, "ssd": {}}
    everywhere = np.ones(settings.world_size)
    return MemoryUse({tier: {name: everywhere * size for name, size in found.items()} for tier, found in items.items()})


def room_for_blocks(network: Network, settings: ConvnetSettings, weights: Weights, device_bytes: float) -> float:
    """Device memory that is left for tensors of blocks, and for their weights if these are swapped, bytes."""
    return device_bytes - sum(_device_items(network, settings, weights).values())


def memory_of_partitions(network: Network, settings: ConvnetSettings) -> MemoryUse:
    """Bytes that every rank keeps where ranks hold partitions.

    Raises:
        InputError: the layers of the partitions are not those of the network.
    """
    items: dict[str, FloatArray] = {}
    for partition in partitions_of(network, settings.layers_per_partition):
        for name, size in _partition_items(partition, settings).items():
            held = items.setdefault(name, np.zeros(settings.world_size))
            held[partition.number :: settings.partitions] = size
    copied = settings.images == "from_host"
    on_host = {"inputs in flight": items["inputs in flight"]} if copied else {}
    return MemoryUse({"hbm": items, "ddr": on_host, "ssd": {}})


def _device_items(network: Network, settings: ConvnetSettings, weights: Weights) -> dict[str, float]:
    """Bytes in device memory beside tensors of blocks: of activations, the images and gradients at work."""
    parameters = float(network.parameters * GRADIENT_BYTES)
    buffered = settings.strategy.startswith("horovod") and not _sums_on_host(settings) and settings.world_size > 1
    return _items(
        network,
        settings,
        kept_elements=network.image.elements,
        buffer_bytes=min(settings.fusion_bytes, parameters) if buffered else 0.0,
        input_bytes=_input_bytes(network, settings),
        weights=weights,
    )


def _partition_items(partition: Partition, settings: ConvnetSettings) -> dict[str, float]:
    """Bytes in device memory of a rank with a partition."""
    flight = in_flight(partition.number, settings.partitions, settings.micro_batches, order=settings.schedule)
    return _items(
        partition,
        settings,
        kept_elements=partition.network.kept_by(partition.numbers) * flight,
        buffer_bytes=DIRECTIONS * message_bytes(partition, settings),
        input_bytes=_input_bytes(partition.network, settings) if partition.number == 0 else 0.0,
    )


def _items(
    part: Network | Partition,
    settings: ConvnetSettings,
    *,
    kept_elements: int,
    buffer_bytes: float,
    input_bytes: float,
    weights: Weights = "keep",
) -> dict[str, float]:
    """Bytes in device memory of a rank with some layers.

    Args:
        kept_elements: numbers of one image that stay for the backward pass.
        weights: whether weights, gradients and state are there.
    """
    held = float(part.parameters * GRADIENT_BYTES) if weights == "keep" else 0.0
    largest = max(layer.output.elements for layer in part.layers)
    return {
        "weights": held + part.statistics * GRADIENT_BYTES,
        "optimizer state": held * DENSE_STATE[settings.optimizer],
        "gradients": held,
        "activations": _batch(settings).bytes_of(kept_elements + GRADIENTS_AT_ONCE * largest),
        "communication buffers": buffer_bytes,
        "inputs in flight": input_bytes,
        "framework reserve": settings.reserve_bytes,
    }


def _host_items(network: Network, settings: ConvnetSettings, weights: Weights) -> dict[str, float | FloatArray]:
    """Bytes in host memory beside swapped tensors."""
    served = _served_bytes(network, settings)
    parameters = float(network.parameters * GRADIENT_BYTES)
    swapped = parameters if weights == "swap" else 0.0
    summed = _sums_on_host(settings) and settings.world_size > 1
    buffers = min(settings.fusion_bytes, parameters) + (parameters - swapped)
    return {
        "weights": served + swapped,
        **({"optimizer state": swapped * DENSE_STATE[settings.optimizer]} if swapped else {}),
        "gradients": served + swapped,
        "communication buffers": buffers if summed else 0.0,
        "inputs in flight": _input_bytes(network, settings),
    }


def _batch(settings: ConvnetSettings) -> ImageBatch:
    """Images that a rank processes at once."""
    return ImageBatch(settings.images_per_rank // settings.micro_batches, settings.precision)


def _sums_on_host(settings: ConvnetSettings) -> bool:
    """Whether gradients are summed in buffers of the hosts."""
    return settings.strategy == "horovod_mpi"


def _input_bytes(network: Network, settings: ConvnetSettings) -> float:
    """Images of an iteration that are copied."""
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
