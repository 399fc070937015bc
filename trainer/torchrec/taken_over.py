"""A module and its plan as a scenario: model, sharding and optimizers, with notes on parts that have no form in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inputs.given import listed
from trainer.torchrec.collections import (
    OPTIMIZERS,
    BagCollection,
    BagTable,
    collections_of,
    unpooled_paths,
)
from trainer.torchrec.constraints import Constraints, sharding_section
from trainer.torchrec.dense_layers import dense_of
from trainer.torchrec.interfaces import TorchModule, TorchrecShardingPlan
from trainer.torchrec.plan_entries import plan_entries
from trainer.torchrec.pooling import POOLING_FACTOR, PoolingFactors, pooling_of, require_known, vectors_of

FRAMEWORK = "pytorch"
"""The profile of PyTorch with TorchRec and FBGEMM at their defaults."""

INDEX_REUSE = "uniform"
"""Law of lookups: a module says nothing of the popularity of rows."""


@dataclass(frozen=True, slots=True)
class TakenOver:
    """Parts of a scenario that come from a module.

    Attributes:
        model: content of a model file, its tables spelled out.
        features: names of the features of each table.
        sharding: ``workload.sharding`` without a plan.
        optimizer: ``workload.optimizer``.
        plan: content of a plan file; None without a plan.
        notes: settings of the module and the plan that the scenario lacks, and figures that are assumed.
    """

    model: dict[str, Any]
    features: Mapping[str, tuple[str, ...]]
    sharding: dict[str, Any]
    optimizer: dict[str, str]
    plan: dict[str, Any] | None
    notes: tuple[str, ...]


def taken_over(
    module: TorchModule,
    plan: TorchrecShardingPlan | None,
    *,
    name: str,
    world_size: int,
    batch_size_per_rank: int,
    constraints: Constraints,
    pooling_factors: PoolingFactors,
    dense: Mapping[str, object] | None,
    sequences: Mapping[str, str],
    device: str,
) -> TakenOver:
    """Read a module and a plan.

    Args:
        name: name in the model file.
        dense: ``mlp``, ``interaction``... as in a model file; None: read from the module.
        sequences: sequence of each table of an EmbeddingCollection; without an entry the sequence of ``hstu``.
        device: kind of device of the ranks, ``cuda`` or ``cpu``.

    Raises:
        InputError: the module has no tables or an unknown dense part, the plan does not list its shards, or a name in
            the constraints or pooling factors is unknown.
    """
    stack = None if dense is None else dense.get("hstu")
    found = collections_of(module, unpooled=stack is not None)
    tables = [table for collection in found for table in collection.tables]
    names = [table.name for table in tables]
    require_known(constraints, names, "constraints")
    require_known(pooling_factors, [*names, *(of for table in tables for of in table.features)], "pooling_factors")
    unpooled = [table for table in tables if table.unpooled]
    require_known(sequences, [table.name for table in unpooled], "sequences")
    attended = str(stack.get("sequence")) if isinstance(stack, Mapping) else ""
    groups, pooling_notes = _groups([table for table in tables if not table.unpooled], constraints, pooling_factors)
    groups += [_unpooled_group(table, sequences.get(table.name, attended)) for table in unpooled]
    sharding, constraint_notes = sharding_section(constraints, names, device)
    file, plan_notes = (None, ()) if plan is None else plan_entries(plan, world_size)
    optimizer, optimizer_notes = _optimizer(tables)
    model = {
        "name": name,
        "title": f"{type(module).__name__}, taken over from TorchRec",
        "tables": groups,
        **(dense_of(module) if dense is None else dense),
        "index_reuse": (dense or {}).get("index_reuse", INDEX_REUSE),
        "local_batch_size": batch_size_per_rank,
    }
    notes = (*_left_out(module, found), *pooling_notes, *optimizer_notes, *constraint_notes, *plan_notes)
    return TakenOver(model, {table.name: table.features for table in tables}, sharding, optimizer, file, notes)


def _groups(
    tables: Sequence[BagTable], constraints: Constraints, given: PoolingFactors
) -> tuple[list[dict[str, Any]], list[str]]:
    """Entries of ``tables`` of a model file, and notes."""
    groups, notes, unknown = [], [], []
    for table in tables:
        constraint = constraints.get(table.name)
        pooling, stated = pooling_of(table, given, constraint)
        vectors, note = vectors_of(table, constraint)
        notes += [] if note is None else [note]
        unknown += [] if stated else [table.name]
        each = [factor for factor, count in zip(pooling, vectors, strict=True) for _ in range(count)]
        groups.append(
            {
                "name": table.name,
                "rows": table.rows,
                "dim": table.dim,
                "pooling_factor": each[0] if len(set(each)) == 1 else each,
                "features": len(each),
                "precision": table.dtype,
            }
        )
    if unknown:
        notes.append(f"pooling factor {POOLING_FACTOR:g} is assumed for {listed(unknown)}")
    return groups, notes


def _unpooled_group(table: BagTable, sequence: str) -> dict[str, Any]:
    """Entry of a table whose vectors are not pooled."""
    return {
        "name": table.name,
        "rows": table.rows,
        "dim": table.dim,
        "sequence": sequence,
        "features": len(table.features),
        "precision": table.dtype,
    }


def _optimizer(tables: Sequence[BagTable]) -> tuple[dict[str, str], list[str]]:
    """``tables`` of ``workload.optimizer``, where all tables have the same known optimizer."""
    kinds = {table.optimizer for table in tables}
    only = next(iter(kinds))
    if len(kinds) == 1 and only in OPTIMIZERS:
        return {"tables": OPTIMIZERS[only]}, []
    if kinds == {None}:
        return {}, ["the module has no optimizer of its tables: workload.optimizer is the default"]
    named = ", ".join(sorted(map(str, kinds)))
    return {}, [f"optimizers of the tables ({named}) are left out: workload.optimizer is the default"]


def _left_out(module: TorchModule, found: Sequence[BagCollection]) -> list[str]:
    """Notes on parts of a module that the model lacks."""
    tables = [table for collection in found for table in collection.tables]
    weighted = [table.name for table in tables if table.weighted]
    unpooled = () if any(table.unpooled for table in tables) else unpooled_paths(module)
    notes = [f"rows are looked up by the law {INDEX_REUSE}: a module does not state their popularity"]
    if weighted:
        notes.append(f"weights of indices are left out, of {listed(weighted)}")
    if unpooled:
        notes.append(f"EmbeddingCollections are left out, their vectors are not pooled: {listed(unpooled)}")
    return notes
