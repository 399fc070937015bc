"""How much memory the tables of a group take on each rank: on a CPU it decides which cache a row comes from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from simulator.operators import FloatArray
from workloads.groups import EmbeddingGroup
from workloads.kernels import amount
from workloads.optimizers import STATE_BYTES, state_elements
from workloads.plan import Plan
from workloads.settings import DlrmSettings

_SHARDINGS = {
    "column": ("table_wise", "column_wise", "table_column_wise"),
    "node_wise": ("table_row_wise", "grid_shard"),
    "row_wise": ("row_wise",),
    "data_parallel": ("data_parallel",),
}
"""Sharding types whose tables share the kernels of a group."""


def with_residency(
    groups: tuple[EmbeddingGroup, ...], plan: Plan, settings: DlrmSettings
) -> tuple[EmbeddingGroup, ...]:
    """The groups with the bytes of their tables on each rank in lookups and updates."""
    return tuple(_told(group, plan, settings) for group in groups)


def _told(group: EmbeddingGroup, plan: Plan, settings: DlrmSettings) -> EmbeddingGroup:
    weights, state = _resident_bytes(group, plan, settings)
    lookup = replace(group.lookup, resident_bytes=amount(weights))
    return replace(group, lookup=lookup, update=replace(group.update, resident_bytes=amount(weights + state)))


def _resident_bytes(group: EmbeddingGroup, plan: Plan, settings: DlrmSettings) -> tuple[FloatArray, FloatArray]:
    """Weights and optimizer state on each rank ``[P]``, bytes; the optimizer of copies is the dense one."""
    shards, types = plan.shards(), np.array(plan.sharding_types)
    of_group = np.isin(types[shards.table], _SHARDINGS[group.kind])
    element = plan.tables.element_bytes[shards.table]
    weights = (shards.rows * shards.dim * element) * of_group
    elements = state_elements(settings.optimizer.tables, shards.rows, shards.dim)
    state = elements * STATE_BYTES * of_group * (group.kind != "data_parallel")

    def on_ranks(part: npt.ArrayLike) -> FloatArray:
        return np.asarray(np.bincount(shards.rank, weights=part, minlength=plan.world_size), dtype=np.float64)

    return on_ranks(weights), on_ranks(state)
