"""Kernels of a server of tables for the request of a thread: rows looked up and pooled, later updated."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from simulator.operators import EmbeddingLookup, EmbeddingUpdate, FloatArray
from simulator.precisions import WIRE_BYTES
from simulator.program import IntArray
from workloads.dlrm.model.storage import uniform_storage
from workloads.dlrm.rows.kernels import KernelShards, kernels
from workloads.dlrm_ps.placement import PlacedTables
from workloads.dlrm_ps.settings import PsSettings

K = TypeVar("K", bound=EmbeddingLookup | EmbeddingUpdate)


@dataclass(frozen=True, slots=True)
class Requests:
    """A request of one thread.

    Attributes:
        lookup: kernel of each server ``[S]``, on one core.
        update: kernel of each server ``[S]`` for the gradients, on one core.
        index_bytes: indices and bag lengths that a trainer sends to each server ``[S]``.
        vector_bytes: pooled vectors that each server returns ``[S]``.
        gradient_bytes: gradients of these that a trainer sends to each ``[S]``.
        load: bytes of rows that each server looks up ``[S]``.
    """

    lookup: EmbeddingLookup
    update: EmbeddingUpdate
    index_bytes: FloatArray
    vector_bytes: FloatArray
    gradient_bytes: FloatArray
    load: FloatArray


def requests_of(placed: PlacedTables, settings: PsSettings) -> Requests:
    """The requests of a job.

    A kernel runs on one of a server's cores, with an equal part of its memory's rate.
    """
    tables, servers, counted = placed.tables, settings.sparse_servers, settings.table_settings

    def on_servers(values: FloatArray) -> FloatArray:
        return placed.on_servers(values, servers)

    table = np.arange(len(tables))
    batch = float(settings.batch_per_thread)
    shards = KernelShards(table, tables.dim, batch, 1, on_servers, on_servers, on_servers, on_servers)
    made = kernels(tables, counted, shards, uniform_storage(len(tables)))
    slower = settings.cores * settings.framework.factor("embedding_factor")
    vectors = on_servers(np.asarray(batch * tables.pooled_dim, dtype=np.float64))
    indices = tables.lookups_per_sample * counted.index_bytes + tables.features * float(counted.length_bytes)
    return Requests(
        lookup=replace(made.lookup, factor=slower, missed=None),
        update=replace(made.update, factor=slower),
        index_bytes=on_servers(batch * indices),
        vector_bytes=vectors * WIRE_BYTES[settings.precision.forward_all_to_all],
        gradient_bytes=vectors * WIRE_BYTES[settings.precision.backward_all_to_all],
        load=on_servers(batch * tables.lookups_per_sample * tables.dim * tables.element_bytes),
    )


def on_ranks(kernel: K, servers: IntArray, slower: float) -> K:
    """A kernel on some of the servers, ``slower`` times as long."""
    picked: dict[str, Any] = {
        each.name: value[servers]
        for each in fields(kernel)
        if isinstance(value := getattr(kernel, each.name), np.ndarray)
    }
    return replace(kernel, **picked, factor=kernel.factor * slower)
