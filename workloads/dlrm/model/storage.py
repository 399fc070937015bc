"""Storage of tables: compute kernels as TorchRec names them, their caches, and bytes per memory tier.

- ``fused``: weights and optimizer state in device memory (HBM);
- ``fused_uvm``: weights in host memory (DDR), read and written by the kernels over PCIe;
- ``fused_uvm_caching``: weights in host memory, the rows of a batch brought into a cache in device memory first;
- ``key_value``: weights on SSDs, the same cache before them;
- ``dense``: that of data_parallel tables, which `workloads.dlrm.iteration.embeddings` treats as dense parameters.

FBGEMM keeps state per row on the device whatever the kernel, and state per weight beside weights that are not there
(``construct_split_state`` of split_table_batched_embeddings_ops_training.py, fbgemm-gpu 1.9.0). Its cache has sets of
32 slots; a slot is as wide as its row here, as where TorchRec groups cached tables by width (embedding_dim_bucketer).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.graph.memory import TIERS, Tier
from workloads.graph.optimizers import STATE_BYTES, TABLE_STATE, TableOptimizerKind

ComputeKernel: TypeAlias = Literal["fused", "fused_uvm", "fused_uvm_caching", "key_value"]
Item: TypeAlias = Literal["weights", "optimizer state", "caches"]

COMPUTE_KERNELS: tuple[ComputeKernel, ...] = get_args(ComputeKernel)
CACHED_KERNELS: tuple[ComputeKernel, ...] = ("fused_uvm_caching", "key_value")
FUSED, UVM, CACHED, KEY_VALUE = range(len(COMPUTE_KERNELS))
_WEIGHTS_TIER: dict[int, Tier] = {FUSED: "hbm", UVM: "ddr", CACHED: "ddr", KEY_VALUE: "ssd"}
_IN_TIER = {
    tier: np.array([int(_WEIGHTS_TIER[number] == tier) for number in range(len(COMPUTE_KERNELS))]) for tier in TIERS
}
_HAS_CACHE = np.array([int(kernel in CACHED_KERNELS) for kernel in COMPUTE_KERNELS])

LOAD_FACTOR = 0.2
"""Cached share of the rows by default (TorchRec planner/constants.py UVM_CACHING_RATIO, FBGEMM cache_load_factor)."""

CACHE_WAYS = 32
"""Slots of a cache set (FBGEMM DEFAULT_ASSOC)."""

ROW_BYTES, SLOT_BYTES, LOCK_BYTES = 4, 16, 4
"""Bookkeeping of a cache: the table of each row (int32); the row in each slot and its last use (int64 each); with the
prefetch pipeline how many batches in flight use the slot (int32) (FBGEMM ``_apply_cache_state``)."""

LOCKING_PIPELINES = frozenset(("prefetch",))
"""Pipelines that fill the cache for a batch while another one uses it."""

WRITE_BUFFER_BYTES = 2 * 2**30
"""Host memory of RocksDB's write buffer (fbgemm_gpu/tbe/ssd/training.py ``ssd_rocksdb_write_buffer_size``)."""


@dataclass(frozen=True, slots=True)
class Storage:
    """The kernel of each table ``[N]`` as its number in `COMPUTE_KERNELS`, and the cached share of its rows ``[N]``.

    Both mean nothing for data_parallel tables, the share nothing for kernels without a cache.
    """

    kernel: IntArray
    load_factor: FloatArray

    def named(self, table: int) -> ComputeKernel:
        """The kernel of a table by its name."""
        return COMPUTE_KERNELS[int(self.kernel[table])]

    def slots(self, table: IntArray, rows: FloatArray) -> FloatArray:
        """Cache slots of ``rows [S]`` rows of tables ``[S]``; 0 for kernels without a cache."""
        wanted = np.floor(rows * self.load_factor[table])
        sets = np.maximum(np.ceil(wanted / CACHE_WAYS), rows > 0)
        return np.where(is_cached(self.kernel[table]), np.minimum(sets * CACHE_WAYS, np.ceil(rows)), 0.0)


def uniform_storage(count: int, kernel: ComputeKernel = "fused", load_factor: float = LOAD_FACTOR) -> Storage:
    """The same kernel for ``count`` tables."""
    return Storage(np.full(count, COMPUTE_KERNELS.index(kernel), dtype=np.int64), np.full(count, load_factor))


def is_cached(kernel: IntArray) -> IntArray:
    """Whether kernels ``[S]`` have a cache, as 0 or 1."""
    return np.asarray(_HAS_CACHE[kernel])


def stored_bytes(
    storage: Storage,
    optimizer: TableOptimizerKind,
    table: IntArray,
    rows: IntArray,
    dim: IntArray,
    element_bytes: IntArray,
    *,
    locks: bool = False,
) -> dict[tuple[Tier, Item], FloatArray]:
    """Bytes of shards by tier and item ``[S]``.

    Args:
        storage: kernels of all tables.
        table: table of each shard ``[S]``.
        rows: its rows ``[S]``.
        dim: its columns ``[S]``.
        element_bytes: size of a weight ``[S]``.
        locks: whether slots are locked for batches in flight (`LOCKING_PIPELINES`).
    """
    kernel, state = storage.kernel[table], TABLE_STATE[optimizer]
    weights, elements = rows * dim * float(1) * element_bytes, STATE_BYTES * rows.astype(np.float64)
    slots = storage.slots(table, rows.astype(np.float64))
    bookkeeping = ROW_BYTES * rows + (SLOT_BYTES + LOCK_BYTES * locks) * slots
    found: dict[tuple[Tier, Item], FloatArray] = {
        (tier, "weights"): np.where(_lives_in(kernel, tier), weights, 0.0) for tier in TIERS
    }
    on_device = elements * (state.per_row + state.per_weight * dim * (kernel == FUSED))
    found["hbm", "optimizer state"] = np.asarray(on_device)
    found["ddr", "optimizer state"] = np.asarray(elements * state.per_weight * dim * (kernel != FUSED))
    found["hbm", "caches"] = np.where(is_cached(kernel), slots * dim * element_bytes + bookkeeping, 0.0)
    return found


def _lives_in(kernel: IntArray, tier: Tier) -> IntArray:
    return np.asarray(_IN_TIER[tier][kernel])


def bytes_in(found: dict[tuple[Tier, Item], FloatArray], tier: Tier) -> FloatArray:
    """All items of a tier ``[S]``."""
    return np.asarray(sum(size for (place, _), size in found.items() if place == tier))
