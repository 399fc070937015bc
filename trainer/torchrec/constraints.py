"""TorchRec's ``ParameterConstraints`` as the constraints of ``workload.sharding``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.torchrec.interfaces import TorchrecConstraints
from workloads.dlrm.model.storage import CACHED_KERNELS, COMPUTE_KERNELS

Constraints = Mapping[str, TorchrecConstraints]
"""Constraints by name of a table, as TorchRec's planner takes them."""

ELSEWHERE = frozenset(("pooling_factors", "num_poolings", "sharding_types", "compute_kernels", "cache_params"))
"""Attributes with a form in a scenario."""

FOR_THE_TRAINER = frozenset(
    ("enforce_hbm", "stochastic_rounding", "bounds_check_mode", "output_dtype", "key_value_params", "feature_names")
)
"""Attributes that change no decision of a planner; `dlrmsim.to_torchrec` hands most of them to the plan."""

UNSET: Mapping[str, object] = {"is_weighted": False, "use_virtual_table": False}
"""Values of attributes that ask for nothing, where it is not None."""


def sharding_section(constraints: Constraints) -> tuple[dict[str, Any], tuple[str, ...]]:
    """``workload.sharding`` with everything that it can express, and notes on the rest."""
    section: dict[str, Any] = {}
    notes: list[str] = []
    own = {name: _kernels(name, constraint, notes) for name, constraint in constraints.items()}
    own = {name: entry for name, entry in own.items() if entry}
    if own:
        section["constraints"] = own
    kinds = {tuple(constraint.sharding_types or ()) for constraint in constraints.values()}
    if len(kinds) == 1 and len(only := next(iter(kinds))) == 1:
        section["planner"] = only[0]
    elif kinds - {()}:
        notes.append("sharding_types of the constraints are left out: planners choose among all types")
    for name, constraint in constraints.items():
        lost = [key for key in _asked(constraint) if key not in ELSEWHERE | FOR_THE_TRAINER]
        if lost:
            notes.append(f"{name}: {', '.join(sorted(lost))} of its constraints are left out")
    return section, tuple(notes)


def _kernels(name: str, constraint: TorchrecConstraints, notes: list[str]) -> dict[str, Any]:
    """A table's own kernels and cache; empty where it has the same as all tables."""
    entry: dict[str, Any] = {}
    asked = tuple(constraint.compute_kernels or ())
    known = [kernel for kernel in COMPUTE_KERNELS if kernel in asked]
    unknown = [kernel for kernel in asked if kernel not in COMPUTE_KERNELS and kernel != "dense"]
    if known and known != ["fused"]:
        entry["compute_kernels"] = known
    if unknown:
        notes.append(f"{name}: the kernels {', '.join(unknown)} are left out")
    factor = getattr(getattr(constraint, "cache_params", None), "load_factor", None)
    if factor is not None and set(known) & set(CACHED_KERNELS):
        entry["cache_load_factor"] = float(factor)
    return entry


def _asked(constraint: TorchrecConstraints) -> list[str]:
    """Attributes of a constraint that ask for something."""
    return [key for key, value in vars(constraint).items() if value is not None and value != UNSET.get(key)]
