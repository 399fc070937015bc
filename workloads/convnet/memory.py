"""Memory of a rank of a convolutional network.

Activations are the tensors that the forward pass keeps, and the two largest gradients of activations, of which one is
read and one written at a time. cuDNN's workspaces are not counted. A parameter server keeps its variables and the sums
of their gradients in host memory. A rank with a partition of the network keeps what its layers keep, of all
micro-batches in flight, and buffers for the tensors and gradients that a micro-batch receives and sends.
"""

from __future__ import annotations

import numpy as np

from simulator.operators import FloatArray
from simulator.precisions import BYTES_PER_ELEMENT
from workloads.convnet.layers import Network
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


def memory_per_rank(network: Network, settings: ConvnetSettings) -> MemoryUse:
    """Bytes that every rank keeps."""
    element, images = BYTES_PER_ELEMENT[settings.precision], settings.images_per_rank
    largest = max(layer.output.elements for layer in network.layers)
    parameters = float(network.parameters * GRADIENT_BYTES)
    input_bytes = float(network.image.elements * images * IMAGE_BYTES)
    buffer = min(settings.fusion_bytes, parameters) if settings.strategy.startswith("horovod") else 0.0
    alone, on_host = settings.world_size == 1, settings.strategy == "horovod_mpi"
    served = _served_bytes(network, settings)
    items: dict[Tier, dict[str, float | FloatArray]] = {
        "hbm": {
            "weights": parameters + network.statistics * GRADIENT_BYTES,
            "optimizer state": parameters * DENSE_STATE[settings.optimizer],
            "gradients": parameters,
            "activations": float((network.kept_elements + GRADIENTS_AT_ONCE * largest) * images * element),
            "communication buffers": 0.0 if alone or on_host else buffer,
            "inputs in flight": input_bytes if settings.images == "from_host" else 0.0,
            "framework reserve": settings.reserve_bytes,
        },
        "ddr": {
            "weights": served,
            "gradients": served,
            "communication buffers": buffer + parameters if on_host and not alone else 0.0,
            "inputs in flight": input_bytes if settings.images == "from_host" else 0.0,
        },
        "ssd": {},
    }
    everywhere = np.ones(settings.world_size)
    return MemoryUse({tier: {name: everywhere * size for name, size in found.items()} for tier, found in items.items()})


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


def _partition_items(partition: Partition, settings: ConvnetSettings) -> dict[str, float]:
    images = settings.images_per_rank // settings.micro_batches
    flight = in_flight(partition.number, settings.partitions, settings.micro_batches, order=settings.schedule)
    parameters = float(partition.parameters * GRADIENT_BYTES)
    largest = max(layer.output.elements for layer in partition.layers)
    kept = partition.network.kept_by(partition.numbers) * flight + GRADIENTS_AT_ONCE * largest
    copied = partition.network.image.elements * settings.images_per_rank * IMAGE_BYTES
    reads_images = partition.number == 0 and settings.images == "from_host"
    return {
        "weights": parameters + partition.statistics * GRADIENT_BYTES,
        "optimizer state": parameters * DENSE_STATE[settings.optimizer],
        "gradients": parameters,
        "activations": float(kept * images * BYTES_PER_ELEMENT[settings.precision]),
        "communication buffers": DIRECTIONS * message_bytes(partition, settings),
        "inputs in flight": float(copied) if reads_images else 0.0,
        "framework reserve": settings.reserve_bytes,
    }


def _served_bytes(network: Network, settings: ConvnetSettings) -> FloatArray:
    """Bytes of the variables of the parameter server beside each rank ``[P]``, 0 where there is none."""
    found = np.zeros(settings.world_size)
    if settings.uses_servers and settings.world_size > 1:
        server_of = placed(network.variables, settings.servers)
        for variable in network.variables:
            rank = server_of[variable.name] * settings.local_world_size
            found[rank] += variable.elements * GRADIENT_BYTES
    return found
