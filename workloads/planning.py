"""Planners: named functions that turn tables into a sharding plan.

A planner knows no hardware. It is given how many bytes each rank has for tables, a `ShardCosts` that says what time a
shard costs, and, where somebody can, functions that say what a whole plan costs: by simulating it, and in memory. It
decides who holds what.
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

PHASES = ("lookup", "update", "output", "input")
"""What all ranks do together: lookups, updates, exchange of pooled vectors and their gradients (and of the gradients of
copies), exchange of indices. A phase lasts as long as its slowest rank, and an iteration as long as all phases."""


class ShardCosts(Protocol):
    """What shards cost, seconds per iteration and phase; K phases, those of `PHASES`."""

    def of(self, tables: Tables) -> ShardCosts:
        """Costs of shards of other tables in the same job, such as these with fewer rows."""
        ...

    def column_shard_s(self, table: IntArray, dim: IntArray) -> FloatArray:
        """Cost of shards of ``dim`` columns of the given tables on the rank that holds them ``[S, K]``."""
        ...

    def node_shard_s(self, table: IntArray, dim: IntArray) -> FloatArray:
        """Cost of shards of ``dim`` columns on each rank of the node over which their rows are spread ``[S, K]``."""
        ...

    def row_wise_s(self) -> FloatArray:
        """Cost of each table on every rank when its rows are spread over all ``[N, K]``."""
        ...

    def data_parallel_s(self) -> FloatArray:
        """Cost of each table on every rank when it is copied to all ``[N, K]``."""
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
        simulate_s: seconds per iteration of a plan as the engine finds them; infinite for one that does not fit, and
            for one that takes longer than the second argument. None where nobody can simulate.
        excess_bytes: by how much a plan's fullest rank is over its memory, everything counted. None: not checked.
        steps: how many candidates a search simulates.
        seed: of a search.
    """

    world_size: int
    local_world_size: int
    memory_bytes: float
    costs: ShardCosts
    optimizer: TableOptimizerKind = "rowwise_adagrad"
    dense_optimizer: DenseOptimizerKind = "sgd"
    simulate_s: Callable[[Plan, float], float] | None = None
    excess_bytes: Callable[[Plan], float] | None = None
    steps: int = 0
    seed: int = 0

    @property
    def whole_nodes(self) -> bool:
        """Whether all nodes have the same number of ranks, so that tables can be spread over nodes."""
        return self.world_size % self.local_world_size == 0

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


ATTEMPTS = 3
"""What is not for tables depends on the plan: a plan that is over by that is made again with so much less room."""

MARGIN, MEBIBYTE = 1.1, 2.0**20
"""So much more than the excess is taken off, at least a MiB: otherwise the last bytes of excess never go."""

OVER_CAPACITY = "a rank holds more than it may"


def make_fitting(make: Planner, tables: Tables, context: PlanningContext) -> Plan:
    """Plan with ``make``, and again with less room for tables while a rank holds too much of everything.

    Raises:
        InfeasibleError: no attempt fits.
    """
    for attempt in range(ATTEMPTS):
        try:
            plan = make(tables, context)
        except InfeasibleError:
            if attempt == 0:
                raise
            break
        excess = context.excess_bytes(plan) if context.excess_bytes else 0.0
        if excess <= 0:
            return plan
        context = replace(context, memory_bytes=context.memory_bytes - MARGIN * max(excess, MEBIBYTE))
        if context.memory_bytes <= 0:
            break
    raise InfeasibleError(OVER_CAPACITY)


def fit_rows(planner: str, tables: Tables, context: PlanningContext) -> Plan:
    """Plan with all rows shrunk by one factor, the largest (to 1 %) with which the plan fits; 1 when it fits anyway.

    The paper scaled its tables down so that they fit on few nodes (arXiv 2104.05158, scaling section, recalled).

    Searches search at the end only, with the rows that fit.

    Raises:
        InfeasibleError: not even a thousandth of the rows fits.
    """
    try:
        return make_sharding_plan(planner, tables, context)
    except InfeasibleError:
        stored = context.stored_bytes(tables.rows, tables.dim, tables.element_bytes).sum()
    high = min(1.0, max(0.0, context.memory_bytes) * context.world_size / float(stored))
    full, context = context, replace(context, steps=0)
    low, best = _first_fit(planner, tables, context, high)
    high = min(high, low / _SHRINK)
    while high > _CLOSE * low:
        middle = (low * high) ** 0.5
        try:
            low, best = middle, _scaled_plan(planner, tables, context, middle)
        except InfeasibleError:
            high = middle
    if full.steps:
        best = _scaled_plan(planner, tables, full, low)
    return replace(best, rows_scale=low)


_SHRINK, _CLOSE, _LEAST = 0.8, 1.01, 1e-3
"""Factor of each attempt to fit, how close the largest fitting factor is approached, and the least one tried."""


def _first_fit(planner: str, tables: Tables, context: PlanningContext, factor: float) -> tuple[float, Plan]:
    """The first factor at or below ``factor`` that fits, and its plan."""
    while True:
        try:
            return factor, _scaled_plan(planner, tables, context, factor)
        except InfeasibleError:
            if factor * _SHRINK < _LEAST:
                raise
            factor *= _SHRINK


def _scaled_plan(planner: str, tables: Tables, context: PlanningContext, factor: float) -> Plan:
    """The plan of the tables with ``factor`` times their rows."""
    scaled = scale_rows(tables, factor)
    return make_sharding_plan(planner, scaled, replace(context, costs=context.costs.of(scaled)))
