"""What the caches of a CPU do not serve of the tables of a rank."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.operators import FloatArray, Misses
from workloads.dense import DensePart
from workloads.groups import EmbeddingGroup
from workloads.optimizers import STATE_BYTES, state_elements
from workloads.plan import Plan
from workloads.retention import CACHE_BYTES, Touched, kept_back, lost_within, reach
from workloads.settings import DlrmSettings
from workloads.traffic import popularity_of

_SHARDINGS = {
    "column": ("table_wise", "column_wise", "table_column_wise"),
    "node_wise": ("table_row_wise", "grid_shard"),
    "row_wise": ("row_wise",),
    "data_parallel": ("data_parallel",),
}
"""Sharding types whose tables share the kernels of a group."""
SORTED_BYTES = 32.0
"""Touched for each lookup beside its index: keys before and after the sort, rows and bags as int64."""
PASSES = 2.0
"""Activations and their gradients; parameters and theirs."""


def with_residency(
    groups: tuple[EmbeddingGroup, ...], plan: Plan, settings: DlrmSettings, dense: DensePart
) -> tuple[EmbeddingGroup, ...]:
    """The groups with what caches of a CPU do not serve of their lookups and updates."""
    shards, types = plan.shards(), np.array(plan.sharding_types)
    tables = plan.tables
    copied = types[shards.table] == "data_parallel"
    samples = np.where(copied, settings.local_batch_size, settings.global_batch_size)
    lookups = samples * tables.lookups_per_sample[shards.table] * shards.lookups_fraction
    row_bytes = (shards.dim * tables.element_bytes[shards.table]).astype(np.float64)
    ones = np.ones_like(shards.dim)
    state_bytes = STATE_BYTES * state_elements(settings.optimizer.tables, ones, shards.dim) * ~copied
    known = {table: popularity_of(tables, settings, table) for table in np.unique(shards.table).tolist()}
    touched = [
        Touched(known[table], part, looked_up, of_row, of_state)
        for table, part, looked_up, of_row, of_state in zip(
            shards.table.tolist(),
            (shards.rows / tables.rows[shards.table]).tolist(),
            lookups.tolist(),
            row_bytes.tolist(),
            state_bytes.tolist(),
            strict=True,
        )
    ]
    of_rank = [np.flatnonzero(shards.rank == rank).tolist() for rank in range(plan.world_size)]
    other = np.broadcast_to(_other_bytes(groups, dense, settings), plan.world_size).tolist()
    reached = [reach([touched[s] for s in mine], other[rank]) for rank, mine in enumerate(of_rank)]
    found = []
    for group in groups:
        in_group = np.isin(types[shards.table], _SHARDINGS[group.kind])
        mine = [[touched[s] for s in here if in_group[s]] for here in of_rank]
        found.append(_told(group, mine, reached))
    return tuple(found)


def _told(group: EmbeddingGroup, touched: list[list[Touched]], reached: list[FloatArray]) -> EmbeddingGroup:
    """The group with its misses; touched shards of each rank, and how far back its caches reach."""
    rows, state, lost = [], [], []
    for mine, far in zip(touched, reached, strict=True):
        back = kept_back(far)
        rows.append(sum((t.missed_bytes(back) for t in mine), np.zeros(len(far))))
        new = sum((t.state_bytes * t.new(back) for t in mine), np.zeros(len(far)))
        state.append(new / max(float(new[0]), 1e-300))
        lost.append(lost_within(far))
    update = replace(
        group.update,
        missed=_misses(np.array(lost).T * group.update.weight_bytes),
        state_missed=_misses(np.array(state).T * group.update.state_bytes),
    )
    return replace(group, lookup=replace(group.lookup, missed=_misses(np.array(rows).T)), update=update)


def _misses(found: FloatArray) -> Misses:
    """Of all ranks ``[G, P]``, or one for all that are alike."""
    return Misses(CACHE_BYTES, found[:, 0] if np.all(found == found[:, :1]) else found)


def _other_bytes(groups: tuple[EmbeddingGroup, ...], dense: DensePart, settings: DlrmSettings) -> FloatArray:
    """What an iteration touches beside rows: activations, parameters, vectors, indices; ``[]`` or ``[P]``."""
    width = dense.interaction_inputs + dense.interaction_outputs + sum(layer.outputs for layer in dense.layers)
    found = np.asarray(PASSES * (settings.local_batch_size * width * settings.dense_bytes + dense.bytes))
    for group in groups:
        sorting = SORTED_BYTES * np.asarray(group.lookup.lookups)
        found = found + PASSES * np.asarray(group.lookup.output_bytes) + group.lookup.index_bytes + sorting
    return np.asarray(found, dtype=np.float64 if found.ndim else float)
