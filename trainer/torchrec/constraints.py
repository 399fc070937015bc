"""TorchRec's ``ParameterConstraints`` as the constraints of ``workload.sharding``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trainer.torchrec.interfaces import TorchrecConstraints
from trainer.torchrec.plan_entries import cache_notes
from workloads.dlrm.model.storage import CACHED_KERNELS
from workloads.dlrm.sharding.constraints import KERNELS

Constraints = Mapping[str, TorchrecConstraints]
"""Constraints by name of a table, as TorchRec's planner takes them."""

ELSEWHERE = frozenset(
    (
        "pooling_factors",
        "num_poolings",
        "sharding_types",
        "compute_kernels",
        "cache_params",
        "min_partition",
        "device_group",
    )
)
"""Attributes with a form in a scenario, or notes of their own."""

FOR_THE_TRAINER = frozenset(
    ("enforce_hbm", "stochastic_rounding", "bounds_check_mode", "output_dtype", "key_value_params", "feature_names")
)
"""Attributes that change no decision of a planner here; `dlrmsim.to_torchrec` hands most of them to the plan."""

UNSET: Mapping[str, object] = {"is_weighted": False, "use_virtual_table": False}
"""Values of attributes that ask for nothing, where it is not None."""


def sharding_section(
    constraints: Constraints, tables: Collection[str], device: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """``workload.sharding`` with everything that it can express, and notes on the rest.

    One sharding type for all tables is the planner of that name, which leaves tables whole that have too few columns.

    Args:
        tables: names of all tables.
        device: kind of device of the cluster's ranks, ``cuda`` or ``cpu``.
    """
    section: dict[str, Any] = {}
    notes: list[str] = []
    only = _only_type(constraints, tables)
    own = {name: _entry(name, constraint, notes, typed=only is None) for name, constraint in constraints.items()}
    own = {name: entry for name, entry in own.items() if entry}
    if own:
        section["constraints"] = own
    if only is not None:
        section["planner"] = only
    for name, constraint in constraints.items():
        notes += _left_out(name, constraint, device)
    return section, tuple(notes)


def _only_type(constraints: Constraints, tables: Collection[str]) -> str | None:
    """The sharding type that constraints ask for all tables; None if they ask for none, or for several."""
    kinds = {tuple(constraint.sharding_types or ()) for constraint in constraints.values()}
    if len(constraints) < len(tables) or len(kinds) != 1:
        return None
    (kind,) = kinds
    return kind[0] if len(kind) == 1 else None


def _entry(name: str, constraint: TorchrecConstraints, notes: list[str], *, typed: bool) -> dict[str, Any]:
    """A table's own constraints; empty where it has the same as all tables."""
    entry: dict[str, Any] = {}
    if typed and constraint.sharding_types:
        entry["sharding_types"] = list(constraint.sharding_types)
    asked = tuple(constraint.compute_kernels or ())
    known = [kernel for kernel in KERNELS if kernel in asked]
    unknown = [kernel for kernel in asked if kernel not in KERNELS]
    if known and known != ["fused", "dense"]:
        entry["compute_kernels"] = known
    if unknown:
        notes.append(f"{name}: the kernels {', '.join(unknown)} are left out")
    if constraint.min_partition is not None:
        entry["min_partition"] = int(constraint.min_partition)
    cache, cached = getattr(constraint, "cache_params", None), [kernel for kernel in known if kernel in CACHED_KERNELS]
    if cache is not None and cached and cache.load_factor is not None:
        entry["cache_load_factor"] = float(cache.load_factor)
    notes += cache_notes(name, cached[0] if cached else (known or ["fused"])[0], cache)
    return entry


def _left_out(name: str, constraint: TorchrecConstraints, device: str) -> list[str]:
    """Notes on attributes that the scenario lacks."""
    asked, notes = _asked(constraint), list[str]()
    lost = [key for key in asked if key not in ELSEWHERE | FOR_THE_TRAINER]
    kept = [key for key in asked if key in FOR_THE_TRAINER]
    if lost:
        notes.append(f"{name}: {', '.join(sorted(lost))} of its constraints are left out")
    if kept:
        notes.append(f"{name}: {', '.join(sorted(kept))} of its constraints change no time; they are for the trainer")
    group = getattr(constraint, "device_group", None)
    if group not in (None, device):
        notes.append(f"{name}: device_group {group} of its constraints is left out, all ranks are {device}")
    return notes


def _asked(constraint: TorchrecConstraints) -> list[str]:
    """Attributes of a constraint that ask for something."""
    return [key for key, value in vars(constraint).items() if value is not None and value != UNSET.get(key)]
