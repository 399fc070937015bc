"""Bytes of a rank's tables that the caches of a CPU do not serve."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from simulator.operators import SORTED_BYTES, Busiest, CpuTraffic, FloatArray, Misses
from workloads.dlrm.iteration.groups import EmbeddingGroup
from workloads.dlrm.iteration.thread_runs import busiest
from workloads.dlrm.model.dense import DensePart
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.rows.kernels import amount
from workloads.dlrm.rows.retention import CACHE_BYTES, Touched, kept_back, lost_within, reach
from workloads.dlrm.rows.traffic import popularity_of
from workloads.dlrm.sharding.plan import Plan
from workloads.graph.optimizers import STATE_BYTES, state_elements

_SHARDINGS = {
    "column": ("table_wise", "column_wise", "table_column_wise"),
    "node_wise": ("table_row_wise", "grid_shard"),
    "row_wise": ("row_wise",),
    "data_parallel": ("data_parallel",),
}
"""Sharding types whose tables share the kernels of a group."""
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
    blocks = zip(shards.dim.tolist(), tables.element_bytes[shards.table].tolist(), strict=True)
    held = [_Shard(*of) for of in zip(touched, blocks, tables.features[shards.table].tolist(), strict=True)]
    of_rank = [np.flatnonzero(shards.rank == rank).tolist() for rank in range(plan.world_size)]
    other = np.broadcast_to(_other_bytes(groups, dense, settings), plan.world_size).tolist()
    reached = [reach([touched[s] for s in mine], other[rank]) for rank, mine in enumerate(of_rank)]
    found = []
    for group in groups:
        in_group = np.isin(types[shards.table], _SHARDINGS[group.kind])
        mine = [[held[s] for s in here if in_group[s]] for here in of_rank]
        sources = 1 if group.kind == "data_parallel" else plan.world_size
        found.append(_with_misses(group, mine, reached, (settings.threads, sources)))
    return tuple(found)


class _Shard(NamedTuple):
    """Touched rows of a shard, its columns with their bytes (such shards lie in one matrix), and its features."""

    touched: Touched
    block: tuple[int, int]
    features: int


def _with_misses(
    group: EmbeddingGroup,
    shards: list[list[_Shard]],
    reached: list[FloatArray],
    shared_by: tuple[int, int],
) -> EmbeddingGroup:
    """The group with the bytes of its lookups and updates that caches do not serve.

    Args:
        group: group of shards that one kernel serves.
        shards: its shards on each rank.
        reached: iterations back to which the caches of each rank hold rows, by cache size ``[G]``.
        shared_by: threads of a rank, and number of ranks whose bags a rank looks up.
    """
    rows, state, weights, most = [], [], [], []
    for mine, far in zip(shards, reached, strict=True):
        back = kept_back(far)
        missed = [shard.touched.missed_bytes(back) for shard in mine]
        rows.append(sum(missed, np.zeros(len(far))))
        lost = lost_within(far)
        if group.kind == "data_parallel":  # an update passes over whole tables
            weights.append(lost)
        else:
            weights.append(_share_fetched([(s.touched, s.touched.row_bytes) for s in mine], np.zeros(1), lost))
        state.append(_share_fetched([(s.touched, s.touched.state_bytes) for s in mine], back))
        if shared_by[0] > 1:
            most.append(_of_busiest(mine, np.array(missed).reshape(len(mine), len(far)), *shared_by))
    updated = CpuTraffic(
        rows=_misses(np.array(weights).T * group.update.weight_bytes),
        state=_misses(np.array(state).T * group.update.state_bytes),
    )
    slowest = None
    if most:
        scaled = np.array(most).T
        slowest = Busiest(amount(group.lookup.lookups * scaled[0]), _misses(scaled[1:]))
    looked_up = CpuTraffic(rows=_misses(np.array(rows).T), busiest=slowest)
    lookup, update = replace(group.lookup, cpu=looked_up), replace(group.update, cpu=updated)
    return replace(group, lookup=lookup, update=update)


def _share_fetched(
    touched: list[tuple[Touched, float]], back: FloatArray, lost: FloatArray | float = 1.0
) -> FloatArray:
    """Bytes of lines that memory delivers for an update of rows, or of their states, over bytes of these ``[G]``.

    Args:
        touched: shards of a rank, and bytes of a row or of its state.
        back: iterations whose rows caches keep ``[G]``, or 0 of all ``[1]``.
        lost: fraction that caches lose after the iteration's lookups ``[G]``.
    """
    found = np.zeros(len(CACHE_BYTES))
    for of, size in touched:
        found += of.fetched_bytes(size, lost * of.new_bytes(size, back))
    return np.asarray(found / max(sum(size * float(of.distinct(1.0)) for of, size in touched), 1e-300))


def _of_busiest(mine: list[_Shard], missed: FloatArray, threads: int, sources: int) -> FloatArray:
    """Load of the busiest thread times the number of threads: share of lookups, and bytes ``[1 + G]``.

    Args:
        mine: shards of a rank ``[S]``.
        missed: bytes that caches do not serve of each ``[S, G]``.
        threads: number of threads of the rank.
        sources: ranks that the bags are from.
    """
    lookups = np.array([shard.touched.lookups for shard in mine])
    amounts = np.column_stack([lookups, missed])
    found = np.zeros(amounts.shape[1])
    for block in sorted({shard.block for shard in mine}):
        places = [place for place, shard in enumerate(mine) if shard.block == block]
        found += busiest(np.array([float(mine[place].features) for place in places]), amounts[places], threads, sources)
    found[0] /= max(lookups.sum(), 1e-300)
    return found


def _misses(found: FloatArray) -> Misses:
    """Misses of all ranks ``[G, P]``, or one column where all are alike."""
    return Misses(CACHE_BYTES, found[:, 0] if np.all(found == found[:, :1]) else found)


def _other_bytes(groups: tuple[EmbeddingGroup, ...], dense: DensePart, settings: DlrmSettings) -> FloatArray:
    """Bytes that an iteration touches beside rows: activations, parameters, vectors, indices; ``[]`` or ``[P]``."""
    width = dense.interaction_inputs + dense.interaction_outputs + sum(layer.outputs for layer in dense.layers)
    found = np.asarray(PASSES * (settings.local_batch_size * width * settings.dense_bytes + dense.bytes))
    for group in groups:
        sorting = SORTED_BYTES * np.asarray(group.lookup.lookups)
        found = found + PASSES * np.asarray(group.lookup.output_bytes) + group.lookup.index_bytes + sorting
    return np.asarray(found, dtype=np.float64 if found.ndim else float)
