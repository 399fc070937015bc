"""Memory of trainers and servers.

A trainer has one copy of the dense parameters with their optimizer state, and for each thread gradients, activations,
pooled vectors with their gradients, and batches read ahead. A server of tables has its tables with their optimizer
state, and as many requests as threads may have sent; a server of dense parameters its part of these, and what trainers
send.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulator.operators import FloatArray
from simulator.precisions import BYTES_PER_ELEMENT
from workloads.dlrm.model.dense import DensePart
from workloads.dlrm_ps.job import ServersJob
from workloads.dlrm_ps.placement import PlacedTables, stored_bytes
from workloads.dlrm_ps.trainer import BATCHES_AHEAD
from workloads.graph.buckets import GRADIENT_BYTES
from workloads.graph.memory import MemoryUse
from workloads.graph.optimizers import DENSE_STATE


def memory_per_rank(job: ServersJob, dense: DensePart, placed: PlacedTables) -> MemoryUse:
    """Memory of each rank; all of it is host memory, which is the memory that ranks on CPUs compute in."""
    settings, everywhere = job.settings, np.zeros(job.settings.world_size)
    kinds = (
        (0, settings.trainers, _of_trainer(job, dense)),
        (settings.first_sparse, settings.sparse_servers, _of_tables(job, placed)),
        (settings.first_dense, settings.dense_servers, _of_parameters(job)),
        (settings.first_reader, settings.readers, _of_reader(job)),
    )
    items: dict[str, FloatArray] = {}
    for first, count, found in kinds:
        for name, size in found.items():
            items.setdefault(name, everywhere.copy())[first : first + count] = size
    items["framework reserve"] = everywhere + settings.framework.reserve_bytes.value
    return MemoryUse({"hbm": items, "ddr": {}, "ssd": {}})


def _of_trainer(job: ServersJob, dense: DensePart) -> Mapping[str, float]:
    settings, requests = job.settings, job.requests
    batch, element = settings.batch_per_thread, BYTES_PER_ELEMENT[settings.precision.dense]
    return {
        "weights": float(dense.bytes),
        "optimizer state": float(dense.bytes * DENSE_STATE[settings.optimizer.dense]),
        "gradients": float(settings.threads * dense.bytes),
        "activations": float(settings.threads * batch * dense.kept_outputs * element),
        "communication buffers": settings.threads * float((requests.vector_bytes + requests.gradient_bytes).sum()),
        "inputs in flight": float(BATCHES_AHEAD * settings.threads * batch * job.sample_bytes),
    }


def _of_tables(job: ServersJob, placed: PlacedTables) -> Mapping[str, FloatArray]:
    settings, requests, servers = job.settings, job.requests, job.settings.sparse_servers
    weights = placed.tables.weight_bytes.astype(np.float64)
    state = stored_bytes(placed.tables, settings.optimizer.tables) - weights
    threads = settings.trainers * settings.threads
    buffers = threads * (requests.index_bytes + requests.vector_bytes + requests.gradient_bytes)
    return {
        "weights": placed.on_servers(weights, servers),
        "optimizer state": placed.on_servers(state, servers),
        "communication buffers": buffers,
    }


def _of_parameters(job: ServersJob) -> Mapping[str, float]:
    settings = job.settings
    if not settings.dense_servers:
        return {}
    part = job.parameters * GRADIENT_BYTES / settings.dense_servers
    return {"weights": part, "communication buffers": settings.trainers * part / settings.sync_every}


def _of_reader(job: ServersJob) -> Mapping[str, float]:
    settings = job.settings
    if not settings.readers:
        return {}
    return {"inputs in flight": settings.global_batch_size * job.sample_bytes / settings.readers}
