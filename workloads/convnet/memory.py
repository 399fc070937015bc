"""Memory of a rank of a convolutional network.

Activations are the tensors that the forward pass keeps, and the two largest gradients of activations, of which one is
read and one written at a time. cuDNN's workspaces are not counted.
"""

from __future__ import annotations

import numpy as np

from simulator.precisions import BYTES_PER_ELEMENT
from workloads.convnet.layers import Network
from workloads.convnet.settings import ConvnetSettings
from workloads.convnet.training_pass import IMAGE_BYTES
from workloads.graph.buckets import GRADIENT_BYTES
from workloads.graph.memory import MemoryUse, Tier
from workloads.graph.optimizers import DENSE_STATE

GRADIENTS_AT_ONCE = 2
"""Gradients of activations at a time: of a layer's output and of its input."""


def memory_per_rank(network: Network, settings: ConvnetSettings) -> MemoryUse:
    """Bytes that every rank keeps."""
    element, images = BYTES_PER_ELEMENT[settings.precision], settings.images_per_rank
    largest = max(layer.output.elements for layer in network.layers)
    parameters = float(network.parameters * GRADIENT_BYTES)
    input_bytes = float(network.image.elements * images * IMAGE_BYTES)
    buffer = min(settings.fusion_bytes, parameters) if settings.strategy.startswith("horovod") else 0.0
    alone, on_host = settings.world_size == 1, settings.strategy == "horovod_mpi"
    items: dict[Tier, dict[str, float]] = {
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
            "communication buffers": buffer + parameters if on_host and not alone else 0.0,
            "inputs in flight": input_bytes if settings.images == "from_host" else 0.0,
        },
        "ssd": {},
    }
    ranks = settings.world_size
    return MemoryUse(
        {tier: {name: np.full(ranks, size) for name, size in found.items()} for tier, found in items.items()}
    )
