"""The architecture of planning: who decides where embedding tables go, and what each part gives to the next.

A planner does not depend on hardware. Its inputs are the bytes of each rank for tables, the `EngineCosts` of shards
and, optionally, functions that give the simulated time and the memory of a whole plan. It places every part of every
table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simulator.operators import FloatArray
from simulator.program import IntArray
from simulator.registry import Registry
from workloads.dlrm.model.storage import Storage, bytes_in, stored_bytes, uniform_storage
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.constraints import TableConstraints
from workloads.dlrm.sharding.costs import EngineCosts
from workloads.dlrm.sharding.plan import Plan
from workloads.graph.memory import Tier
from workloads.graph.optimizers import DenseOptimizerKind, TableOptimizerKind, copied_bytes

PHASES = ("lookup", "update", "output", "input")
"""Phases of an iteration: lookups, updates, exchange of pooled vectors and their gradients (and of the gradients of
copies), exchange of indices. A phase lasts as long as its slowest rank, and an iteration as long as all phases."""


@dataclass(frozen=True, slots=True)
class StorageChoice:
    """Compute kernels that tables may have, and the room beside device memory.

    Made by `scenarios.dlrm.kernels.kernel_choice` from a scenario; `workloads.dlrm.sharding.offload` decides by it.

    Attributes:
        allowed: whether a table may have a kernel ``[N, K]``, in the order of
            `workloads.dlrm.model.storage.COMPUTE_KERNELS`.
        load_factor: cached share of its rows ``[N]``.
        ddr_bytes: host memory that each rank has for tables.
        ssd_bytes: the same of SSDs.
    """

    allowed: NDArray[np.bool_]
    load_factor: FloatArray
    ddr_bytes: float
    ssd_bytes: float


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """The machine and the job, as far as a planner knows them.

    Made by `scenarios.dlrm.plans.PlanningJob`; passed to every planner.

    Attributes:
        local_world_size: ranks per node.
        memory_bytes: bytes that each rank has for table weights and their optimizer state.
        optimizer: optimizer of sharded tables, which decides on their state.
        dense_optimizer: optimizer of copied tables.
        simulate_s: seconds per iteration of a plan as the engine finds them; infinite for one that does not fit, and
            for one that takes longer than the second argument. None where the caller cannot simulate.
        alone_s: estimate of the same in the time that it takes to generate the task graph: the slowest rank on a
            machine where nothing slows other traffic; infinite for a plan that does not fit. None as above.
        excess_bytes: function of a plan: bytes by which its fullest rank exceeds its memory. None: not checked.
        choice: compute kernels allowed for each table; None: `storage` is given.
        constraints: constraints of single tables; None: there are none.
        storage: kernels of the tables, None for ``fused``.
        locks_cache: whether cache slots are locked for batches in flight.
        steps: number of candidates that a search simulates.
        hasty: whether a planner returns its first plan that fits instead of looking for better ones.
    """

    world_size: int
    local_world_size: int
    memory_bytes: float
    costs: EngineCosts
    optimizer: TableOptimizerKind = "rowwise_adagrad"
    dense_optimizer: DenseOptimizerKind = "sgd"
    simulate_s: Callable[[Plan, float], float] | None = None
    alone_s: Callable[[Plan], float] | None = None
    excess_bytes: Callable[[Plan], float] | None = None
    choice: StorageChoice | None = None
    constraints: TableConstraints | None = None
    storage: Storage | None = None
    locks_cache: bool = False
    steps: int = 0
    seed: int = 0
    hasty: bool = False

    @property
    def whole_nodes(self) -> bool:
        """Whether all nodes have the same number of ranks, so that tables can be spread over nodes."""
        return self.world_size % self.local_world_size == 0

    @property
    def rows_over_nodes(self) -> bool:
        """Whether tables can be cut by rows over the ranks of a node; TorchRec has no such kind for sequences."""
        return self.whole_nodes and not self.costs.tables.sequences

    @property
    def cuts_over_nodes(self) -> bool:
        """Whether a plan may cut tables by rows over the ranks of nodes, instead of leaving them whole."""
        settings, several = self.costs.settings, self.world_size > self.local_world_size > 1
        exchanged = settings.exchange == "all_to_all" and settings.hybrid is None
        return several and self.rows_over_nodes and exchanged and self.storage is None and self.choice is None

    def stored_bytes(
        self,
        rows: IntArray,
        dim: IntArray,
        element_bytes: IntArray,
        table: IntArray | None = None,
        tier: Tier = "hbm",
    ) -> IntArray:
        """Weights, optimizer state and caches of shards in a memory tier, bytes ``[S]``.

        Args:
            rows: number of rows of each shard ``[S]``.
            dim: its columns ``[S]``.
            element_bytes: size of a weight ``[S]``.
            table: its table ``[S]``; None: shard i is of table i.
        """
        which = np.arange(len(rows)) if table is None else table
        storage = self.storage or uniform_storage(int(which.max(initial=-1)) + 1)
        found = stored_bytes(storage, self.optimizer, which, rows, dim, element_bytes, locks=self.locks_cache)
        return np.asarray(np.ceil(bytes_in(found, tier)), dtype=np.int64)

    def least_bytes(self, tables: Tables) -> float:
        """Least bytes of device memory of all tables on all ranks, each table sharded or copied."""
        sharded = self.stored_bytes(tables.rows, tables.dim, tables.element_bytes)
        return float(np.minimum(sharded, self.world_size * self.copied_bytes(tables)).sum())

    def copied_bytes(self, tables: Tables) -> IntArray:
        """Weights, gradient and optimizer state of a copy of each table, bytes ``[N]``."""
        return copied_bytes(self.dense_optimizer, tables.weight_bytes)


Planner: TypeAlias = Callable[[Tables, PlanningContext], Plan]
"""A function from tables and a context to a plan; raises `InfeasibleError` where none fits.

Implemented by the ``*_planner`` modules, and by other distributions through the entry points ``dlrmsim.planners``."""

PLANNERS: Registry[Planner] = Registry("planner", "dlrmsim.planners")
"""Planners by name; `workloads.dlrm.sharding` registers those that ship."""
