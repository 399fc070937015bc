"""Whether a plan obeys the constraints of single tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inputs.errors import InputError
from inputs.keys import key_text
from simulator.program import IntArray
from workloads.dlrm.sharding.constraints import KERNELS, TYPES, TableConstraints, ranks_in_words
from workloads.dlrm.sharding.plan import Plan
from workloads.dlrm.sharding.plan_file import OF_ONE_RANGE


@dataclass(frozen=True, slots=True)
class BrokenConstraint:
    """A constraint that a plan does not obey.

    Attributes:
        table: number of the table.
        key: name of the constraint.
        given: the plan's value.
        expected: values that the constraint allows.
    """

    table: int
    key: str
    given: str
    expected: str


def check_obeyed(plan: Plan, limits: TableConstraints, modules: Mapping[str, Iterable[str]]) -> None:
    """Check a plan that was given.

    A whole table counts as ``column_wise`` with a single column range, and likewise for ``grid_shard``, as in TorchRec.

    Args:
        modules: tables of each module in the plan's file, by their names.

    Raises:
        InputError: with the table's key in the file, and the constraint in the message.
    """
    module_of = {name: module for module, names in modules.items() for name in names}
    for found in broken(plan, limits, given=True):
        name = plan.tables.names[found.table]
        raise InputError(
            f"the plan breaks the constraint {found.key} of {name}",
            key=key_text(("plan", module_of[name], name)),
            given=found.given,
            expected=found.expected,
        )


def broken(plan: Plan, limits: TableConstraints, *, given: bool = False) -> Iterator[BrokenConstraint]:
    """Constraints that a plan does not obey, by kind of constraint.

    Args:
        given: whether the plan was given: then its kernels count, which planners get chosen, and a whole table counts
            as cut into one column range.
    """
    yield from _of_types(plan, limits, one_range_is_cut=given)
    if given:
        yield from _of_kernels(plan, limits)
    yield from _of_widths(plan, limits)
    if limits.group.any() or (limits.together >= 0).any():
        yield from _of_places(plan, limits)


def _of_types(plan: Plan, limits: TableConstraints, *, one_range_is_cut: bool) -> Iterator[BrokenConstraint]:
    kinds = np.array([TYPES.index(kind) for kind in plan.sharding_types])
    for table in np.flatnonzero(~limits.types[np.arange(len(kinds)), kinds]).tolist():
        given, expected = TYPES[kinds[table]], np.array(TYPES)[limits.types[table]].tolist()
        if not (one_range_is_cut and given in map(OF_ONE_RANGE.get, expected)):
            yield BrokenConstraint(table, "sharding_types", given, " or ".join(expected))


def _of_kernels(plan: Plan, limits: TableConstraints) -> Iterator[BrokenConstraint]:
    if limits.kernels.all():
        return
    kernels = np.array([KERNELS.index(kernel) for kernel in plan.compute_kernels])
    for table in np.flatnonzero(~limits.kernels[np.arange(len(kernels)), kernels]).tolist():
        expected = " or ".join(np.array(KERNELS)[limits.kernels[table]].tolist())
        yield BrokenConstraint(table, "compute_kernels", KERNELS[kernels[table]], expected)


def _of_widths(plan: Plan, limits: TableConstraints) -> Iterator[BrokenConstraint]:
    if not limits.least_dim.any():
        return
    narrowest = plan.tables.dim.copy()
    for pieces in (plan.columns, plan.nodes):
        np.minimum.at(narrowest, pieces.table, pieces.dim)
    bad = (narrowest < limits.least_dim) & (narrowest < plan.tables.dim)
    for table in np.flatnonzero(bad).tolist():
        given, expected = f"a range of {narrowest[table]} columns", f"{limits.least_dim[table]} or more"
        yield BrokenConstraint(table, "min_partition", given, expected)


def _of_places(plan: Plan, limits: TableConstraints) -> Iterator[BrokenConstraint]:
    bound = np.flatnonzero((limits.group > 0) | (limits.together >= 0))
    held = holders(plan, bound)
    for row, table in zip(held, bound.tolist(), strict=True):
        outside = np.flatnonzero(row & ~limits.ranks[limits.group[table]])
        if len(outside):
            group = limits.group_in_words(int(limits.group[table]))
            yield BrokenConstraint(table, "device_group", f"a shard on rank {outside[0]}", group)
    row_of = {table: row for row, table in zip(held, bound.tolist(), strict=True)}
    for members in limits.sets():
        first, *others = members.tolist()
        for table in others:
            if not np.array_equal(row_of[table], row_of[first]):
                given, there = ranks_in_words(row_of[table]), ranks_in_words(row_of[first])
                yield BrokenConstraint(table, "together", given, f"{there}, as {plan.tables.names[first]}")


def holders(plan: Plan, table: IntArray) -> NDArray[np.bool_]:
    """Whether a rank holds a shard of some tables ``[len(table), P]``; all ranks share a table cut over all of them."""
    number = np.full(len(plan.tables), -1, dtype=np.int64)
    number[table] = np.arange(len(table))
    held = np.zeros((len(table), plan.world_size), dtype=np.bool_)
    columns = plan.columns.at(number[plan.columns.table] >= 0)
    held[number[columns.table], columns.rank] = True
    nodes, local = plan.nodes.at(number[plan.nodes.table] >= 0), plan.local_world_size
    for place in range(local):
        held[number[nodes.table], nodes.node * local + place] = True
    everywhere = np.concatenate([plan.row_wise, plan.data_parallel])
    held[number[everywhere[number[everywhere] >= 0]]] = True
    return held
