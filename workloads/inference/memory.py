"""Memory of servers, with room for the largest batch.

Device memory has the dense weights, the caches, the rows of a batch before they are put into the cache, and what the
forward pass keeps at once. A node holds rows in host memory and all rows on SSDs once, for all its servers, each of
which has an equal part here; where host memory holds every row nothing is on SSDs. Servers on CPUs hold the tables
themselves.
"""

from __future__ import annotations

import numpy as np

from simulator.operators import FloatArray
from workloads.dlrm.model.dense import DensePart
from workloads.dlrm.model.storage import SLOT_BYTES, WRITE_BUFFER_BYTES
from workloads.dlrm.model.tables import Tables
from workloads.graph.memory import MemoryUse, Tier
from workloads.inference.settings import InferenceSettings
from workloads.inference.work import KEY_BYTES

BATCHES_ON_DEVICE = 1
"""Batches of a server that are on their way or computed at once."""


def memory_of_servers(tables: Tables, dense: DensePart, settings: InferenceSettings, input_bytes: float) -> MemoryUse:
    """Bytes of every server.

    Args:
        input_bytes: size of the largest batch as it comes from the host.
    """
    weights = float(tables.weight_bytes.sum())
    forward = settings.most * settings.dlrm(settings.most).dense_bytes * float(_widest(dense, tables))
    hbm: dict[str, float | FloatArray] = {
        "weights": float(dense.bytes),
        "activations": forward,
        "inputs in flight": BATCHES_ON_DEVICE * input_bytes,
        "framework reserve": settings.framework.reserve_bytes.value,
    }
    ddr, ssd = dict[str, float | FloatArray](), dict[str, float | FloatArray]()
    if settings.gpu_cache is None:
        hbm["weights"] += weights
    else:
        slots = np.floor(settings.gpu_cache * tables.rows)
        row_bytes = tables.dim * tables.element_bytes
        looked_up = settings.most * float(tables.lookups_per_sample @ row_bytes)
        hbm["caches"] = float(slots @ (row_bytes + KEY_BYTES + SLOT_BYTES))
        hbm["communication buffers"] = looked_up if settings.gpu_cache < 1.0 else 0.0
        beside = _servers_beside(settings)
        ddr["weights"] = settings.host_memory * weights / beside
        ddr["inputs in flight"] = BATCHES_ON_DEVICE * input_bytes
        ddr["communication buffers"] = hbm["communication buffers"]
        if settings.host_memory < 1.0:
            ddr["caches"] = WRITE_BUFFER_BYTES / beside
            ssd["weights"] = weights / beside
    found: dict[Tier, dict[str, float | FloatArray]] = {"hbm": hbm, "ddr": ddr, "ssd": ssd}
    return MemoryUse({tier: _on_all(items, settings.servers) for tier, items in found.items()})


def _widest(dense: DensePart, tables: Tables) -> int:
    """Elements of a sample at the widest place of the forward pass: pooled vectors, inputs and output of a layer."""
    layers = max(layer.inputs + layer.outputs for layer in dense.layers)
    interaction = dense.interaction_inputs + dense.interaction_outputs
    return int(tables.pooled_dim.sum()) + max(layers, interaction)


def _servers_beside(settings: InferenceSettings) -> FloatArray:
    """Servers of each server's node, itself among them ``[P]``; the last node may have fewer than the others."""
    node = np.arange(settings.servers) // settings.local_servers
    return np.bincount(node)[node].astype(np.float64)


def _on_all(items: dict[str, float | FloatArray], servers: int) -> dict[str, FloatArray]:
    return {name: np.broadcast_to(size, servers).astype(np.float64) for name, size in items.items()}
