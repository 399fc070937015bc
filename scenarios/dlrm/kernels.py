"""Compute kernels of tables: a scenario's constraints in the form that planners take."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from inputs.errors import InputError
from scenarios.dlrm.constraints import constraints_by_table
from scenarios.dlrm.section import Sharding
from workloads.dlrm.model.storage import COMPUTE_KERNELS
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.interfaces import StorageChoice
from workloads.graph.memory import Tier

HOST_SHARE = 0.95
"""Fraction of a rank's host memory that tables may take: pinned input buffers and the framework's own memory need the
rest (assumed)."""


def kernel_choice(sharding: Sharding, tables: Tables, capacity: Mapping[Tier, float]) -> StorageChoice | None:
    """Compute kernels allowed for each table; None where all tables are ``fused``.

    Raises:
        InputError: a constraint names no table, or asks for SSDs that the nodes lack.
    """
    asked = [sharding.compute_kernels] * len(tables)
    load_factor = np.full(len(tables), sharding.cache_load_factor)
    for table, constraint in constraints_by_table(sharding, tables).items():
        own = tuple(kernel for kernel in COMPUTE_KERNELS if kernel in (constraint.compute_kernels or ()))
        asked[table] = own or sharding.compute_kernels
        load_factor[table] = constraint.cache_load_factor or load_factor[table]
    if all(kernels == ("fused",) for kernels in asked):
        return None
    if capacity["ssd"] <= 0 and any(set(kernels) == {"key_value"} for kernels in asked):
        raise InputError(
            "the nodes have no SSDs for tables",
            key="workload.sharding.compute_kernels",
            given="key_value",
            expected="nodes with ssd, or another kernel",
        )
    allowed = np.array([[kernel in kernels for kernel in COMPUTE_KERNELS] for kernels in asked])
    return StorageChoice(allowed, load_factor, HOST_SHARE * capacity["ddr"], capacity["ssd"])
