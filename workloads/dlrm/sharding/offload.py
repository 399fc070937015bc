"""Tables that leave device memory: where they would not fit, those for which that costs least.

Every table starts with the allowed kernel that costs it least. While the tables do not fit into the device memory of
all ranks together, the change of a kernel that costs least time for the bytes it frees is made, if host memory and SSDs
have room for it. Then a planner places the tables; where it cannot, more of them leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from inputs.errors import InfeasibleError
from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.model.storage import COMPUTE_KERNELS, Storage
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.interfaces import Planner, PlanningContext, StorageChoice
from workloads.dlrm.sharding.plan import Plan
from workloads.graph.memory import TIERS

FILLS = (1.0, 0.97, 0.9, 0.8, 0.65, 0.5, 0.3)
"""Shares of device memory that tables may fill, tried in turn: shards do not pack into ranks without gaps."""


def offload(make: Planner, tables: Tables, context: PlanningContext, choice: StorageChoice) -> Plan:
    """Plan with ``make`` after giving every table a kernel.

    Raises:
        InfeasibleError: no choice of kernels fits, or the planner cannot place it.
    """
    options, failure = _options(tables, context, choice), None
    for kernel in _choices(options, context, choice):
        try:
            return _planned(make, tables, context, Storage(kernel, choice.load_factor))
        except InfeasibleError as error:
            failure = error
    raise failure or InfeasibleError("tables have no kernels")


def _choices(options: _Options, context: PlanningContext, choice: StorageChoice) -> Iterator[IntArray]:
    """Kernels of the tables ``[N]`` that fill ever less of the device memory.

    Raises:
        InfeasibleError: not even the first choice of kernels fits.
    """
    last = np.zeros(0, dtype=np.int64)
    for fill in FILLS:
        try:
            kernel = _choose(options, context.world_size, context.memory_bytes * fill, choice)
        except InfeasibleError:
            if not len(last):
                raise
            return
        if not np.array_equal(kernel, last):
            yield kernel
        last = kernel


@dataclass(frozen=True, slots=True)
class _Options:
    """Every table with every kernel: whether it may, its cost, and its bytes over all ranks by tier.

    ``allowed`` and ``cost_s`` are ``[N, K]``, ``size`` is ``[tiers, N, K]``.
    """

    allowed: NDArray[np.bool_]
    cost_s: FloatArray
    size: FloatArray


def _options(tables: Tables, context: PlanningContext, choice: StorageChoice) -> _Options:
    everything = np.arange(len(tables))
    costs, sizes = [], []
    for number in range(len(COMPUTE_KERNELS)):
        storage = Storage(np.full(len(tables), number, dtype=np.int64), choice.load_factor)
        costs.append(context.costs.stored(storage).column_shard_s(everything, tables.dim).sum(axis=1))
        stored = replace(context, storage=storage)
        held = (stored.stored_bytes(tables.rows, tables.dim, tables.element_bytes, tier=tier) for tier in TIERS)
        sizes.append(np.stack(list(held)).astype(np.float64))
    allowed = choice.allowed if choice.ssd_bytes > 0 else choice.allowed & (np.array(COMPUTE_KERNELS) != "key_value")
    return _Options(allowed, np.stack(costs, axis=1), np.stack(sizes, axis=2))


def _choose(options: _Options, ranks: int, hbm_bytes: float, choice: StorageChoice) -> IntArray:
    """Kernel of each table ``[N]`` so that all tiers hold their tables.

    Raises:
        InfeasibleError: there is none.
    """
    room = ranks * np.array([hbm_bytes, choice.ddr_bytes, choice.ssd_bytes])
    every = np.arange(len(options.cost_s))
    kernel = np.where(options.allowed, options.cost_s, inf).argmin(axis=1)
    used = options.size[:, every, kernel].sum(axis=1)
    while (over := np.flatnonzero(used > room)).size:
        tier = int(over[0])
        frees = options.size[tier, every, kernel][:, None] - options.size[tier]
        after = used[:, None, None] + options.size - options.size[:, every, kernel][:, :, None]
        spoils = np.any((after > room[:, None, None]) & (after > used[:, None, None]), axis=0)
        slower = np.maximum(options.cost_s - options.cost_s[every, kernel][:, None], 0.0)
        usable = options.allowed & (frees > 0) & ~spoils
        price = np.divide(slower, frees, out=np.full_like(slower, inf), where=usable)
        if not np.isfinite(price).any():
            raise InfeasibleError(_too_much(used, room, ranks, tier))
        table, better = np.unravel_index(int(price.argmin()), price.shape)
        used = used + options.size[:, table, better] - options.size[:, table, kernel[table]]
        kernel[table] = better
    return np.asarray(kernel, dtype=np.int64)


def _too_much(used: FloatArray, room: FloatArray, ranks: int, tier: int) -> str:
    needed, there = (value[tier] / ranks / 1e9 for value in (used, room))
    name = TIERS[tier].upper()
    return f"with the kernels they may have, tables need {needed:.2f} GB of {name} a rank, which has {there:.2f} GB"


def _planned(make: Planner, tables: Tables, context: PlanningContext, storage: Storage) -> Plan:
    """The planner's plan for these kernels; what it simulates and checks has them too."""
    simulate_s, excess_bytes = context.simulate_s, context.excess_bytes

    def stored(plan: Plan) -> Plan:
        return replace(plan, storage=storage)

    with_kernels = replace(
        context,
        storage=storage,
        choice=None,
        costs=context.costs.stored(storage),
        simulate_s=None if simulate_s is None else lambda plan, limit_s: simulate_s(stored(plan), limit_s),
        excess_bytes=None if excess_bytes is None else lambda plan: excess_bytes(stored(plan)),
    )
    return stored(make(tables, with_kernels))
