"""Constraints of a scenario as attributes of TorchRec's ``ParameterConstraints``."""

from __future__ import annotations

from scenarios.dlrm.constraints import constraints_by_table
from scenarios.dlrm.section import TableConstraint
from scenarios.dlrm.typed import DlrmResolved
from workloads.dlrm.model.storage import CACHED_KERNELS
from workloads.dlrm.model.tables import expand_tables
from workloads.dlrm.sharding.constraints import KERNELS, ConstraintFields


def constraint_fields(resolved: DlrmResolved) -> tuple[dict[str, ConstraintFields], tuple[str, ...]]:
    """Attributes of every table by its name, and the constraints that TorchRec lacks, in words.

    Raises:
        InputError: a constraint names no table.
    """
    sharding = resolved.scenario.workload.sharding
    tables = expand_tables(resolved.model, resolved.scenario.precision.tables)
    own, found, lost = constraints_by_table(sharding, tables), dict[str, ConstraintFields](), []
    for table, name in enumerate(tables.names):
        entry = own.get(table, TableConstraint())
        allowed = entry.compute_kernels or (*sharding.compute_kernels, "dense")
        cached = bool(set(allowed) & set(CACHED_KERNELS))
        found[name] = ConstraintFields(
            sharding_types=entry.sharding_types,
            compute_kernels=tuple(kernel for kernel in KERNELS if kernel in allowed),
            min_partition=entry.min_partition,
            pooling_factors=tables.pooling_of_features(table),
            load_factor=(entry.cache_load_factor or sharding.cache_load_factor) if cached else None,
        )
        keys = [key for key in ("device_group", "together") if getattr(entry, key) is not None]
        lost += [f"{' and '.join(keys)} of {name}"] if keys else []
    return found, tuple(lost)
