"""Planners: named functions that turn tables into a sharding plan.

A planner knows no hardware. It is given how many bytes each rank has for tables and a `ShardCosts` that says what
time a shard costs; it decides who holds what.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from inputs.errors import InfeasibleError
from simulator.operators import FloatArray
from simulator.program import IntArray
from simulator.registry import Registry
from workloads.plan import Plan
from workloads.settings import STATE_BYTES, DenseOptimizerKind, TableOptimizerKind, copied_bytes, state_elements
from workloads.tables import Tables, scale_rows


class ShardCosts(Protocol):
    """What shards cost, seconds per iteration."""

    def column_shard_s(self, table: IntArray, dim: IntArray) -> FloatArray:
        """Cost of shards of ``dim`` columns of the given tables ``[S, K]``.

        One column for each phase that all ranks do together: a phase lasts as long as its slowest rank, and an
        iteration as long as all phases.
        """
        ...

    def row_wise_s(self) -> FloatArray:
        """Cost of each table on every rank when its rows are spread over all ``[N]``."""
        ...

    def data_parallel_s(self) -> FloatArray:
        """Cost of each table on every rank when it is copied to all ``[N]``."""
        ...


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """What a planner is told of the machine and the job.

    Attributes:
        world_size: ranks.
        local_world_size: ranks per node.
        memory_bytes: bytes that each rank has for table weights and their optimizer state.
        costs: what shards cost.
        optimizer: optimizer of sharded tables, which decides on their state.
        dense_optimizer: optimizer of copied tables.
    """

    world_size: int
    local_world_size: int
    memory_bytes: float
    costs: ShardCosts
    optimizer: TableOptimizerKind = "rowwise_adagrad"
    dense_optimizer: DenseOptimizerKind = "sgd"

    def stored_bytes(self, rows: IntArray, dim: IntArray, element_bytes: IntArray) -> IntArray:
        """Weights and optimizer state of shards, bytes ``[S]``."""
        return rows * dim * element_bytes + state_elements(self.optimizer, rows, dim) * STATE_BYTES

    def copied_bytes(self, tables: Tables) -> IntArray:
        """Weights, gradient and optimizer state of a copy of each table, bytes ``[N]``."""
        return copied_bytes(self.dense_optimizer, tables.weight_bytes)


Planner: TypeAlias = Callable[[Tables, PlanningContext], Plan]


PLANNERS: Registry[Planner] = Registry("planner", "dlrmsim.planners")
"""Planners by name; `workloads.sharding` registers those that ship."""


def make_sharding_plan(planner: str, tables: Tables, context: PlanningContext) -> Plan:
    """Plan with the named planner.

    Raises:
        InputError: no such planner.
        InfeasibleError: the tables do not fit; the message has the numbers.
    """
    return PLANNERS.get(planner, key="workload.sharding.planner")(tables, context)


def fit_rows(planner: str, tables: Tables, context: PlanningContext) -> Plan:
    """Plan with all rows shrunk by one factor, the largest (to 1 %) with which the plan fits; 1 when it fits anyway.

    The paper scaled its tables down so that they fit on few nodes (arXiv 2104.05158, scaling section, recalled).

    Raises:
        InfeasibleError: not even a thousandth of the rows fits.
    """
    try:
        return make_sharding_plan(planner, tables, context)
    except InfeasibleError:
        stored = context.stored_bytes(tables.rows, tables.dim, tables.element_bytes).sum()
    high = min(1.0, max(0.0, context.memory_bytes) * context.world_size / float(stored))
    low, best = _first_fit(planner, tables, context, high)
    high = min(high, low / _SHRINK)
    while high > _CLOSE * low:
        middle = (low * high) ** 0.5
        try:
            low, best = middle, make_sharding_plan(planner, scale_rows(tables, middle), context)
        except InfeasibleError:
            high = middle
    return replace(best, rows_scale=low)


_SHRINK, _CLOSE, _LEAST = 0.8, 1.01, 1e-3
"""Factor of each attempt to fit, how close the largest fitting factor is approached, and the least one tried."""


def _first_fit(planner: str, tables: Tables, context: PlanningContext, factor: float) -> tuple[float, Plan]:
    """The first factor at or below ``factor`` that fits, and its plan."""
    while True:
        try:
            return factor, make_sharding_plan(planner, scale_rows(tables, factor), context)
        except InfeasibleError:
            if factor * _SHRINK < _LEAST:
                raise
            factor *= _SHRINK
