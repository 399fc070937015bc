"""Planners under constraints of single tables.

Planners that choose an option for each table choose among the admitted ones. Others plan as if there were
none; then tables whose shards break a constraint are placed again, or where that leaves no room, all tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from inputs.errors import InfeasibleError, InputError
from inputs.given import listed
from inputs.keys import key_text
from simulator.program import IntArray
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.admitted import KnownPrices, admitted
from workloads.dlrm.sharding.composing import add_tables, compose
from workloads.dlrm.sharding.constraints import TYPES, TableConstraints
from workloads.dlrm.sharding.interfaces import Planner, PlanningContext
from workloads.dlrm.sharding.neighbours import options_in, without
from workloads.dlrm.sharding.obeyed import broken
from workloads.dlrm.sharding.options import Option, options_within
from workloads.dlrm.sharding.plan import Plan, checked
from workloads.dlrm.sharding.plan_file import OF_SEQUENCES, ShardingType

CONSTRAINTS = ("workload", "sharding", "constraints")
"""Key of the constraints in a scenario."""

_BY_COLUMNS: tuple[ShardingType, ...] = ("table_wise", "column_wise")
_HOT: tuple[ShardingType, ...] = (*_BY_COLUMNS, "table_row_wise", "grid_shard")

GIVEN: Mapping[str, tuple[ShardingType, ...]] = {
    "table_wise": ("table_wise",),
    "column_wise": _BY_COLUMNS,
    "row_wise": ("row_wise",),
    "table_row_wise": ("table_row_wise",),
    "table_column_wise": ("table_column_wise",),
    "grid_shard": ("table_row_wise", "grid_shard"),
    "data_parallel": ("data_parallel",),
    "greedy_size": _BY_COLUMNS,
    "greedy_lookups": _BY_COLUMNS,
    "karmarkar_karp": _BY_COLUMNS,
    "zigzag": _BY_COLUMNS,
    "hot": _HOT,
    "hot_copies": (*_HOT, "data_parallel"),
}
"""Sharding types of the plans of planners that do not give all of them; a narrow table is a single column range."""


_NAMED = 3
"""Constrained tables that a message names."""


class ContradictionError(InputError):
    """Constraints of a table leave no way to shard it, or none that the planner gives."""


class LimitedError(InfeasibleError):
    """No plan under constraints fits; the message has the constraints of the largest tables."""


def conforming(name: str, make: Planner, tables: Tables, context: PlanningContext) -> Plan:
    """The plan of a planner, under the constraints of the context.

    Raises:
        ContradictionError: constraints of a table leave no way to shard it with this planner.
        InfeasibleError: no plan fits.
    """
    if context.constraints is None:
        return make(tables, context)
    limits = context.constraints.within(GIVEN.get(name))
    _check_ways(name, tables, context.constraints, limits)
    context = replace(context, constraints=limits)
    _check_room(tables, context, limits)
    try:
        return _conformed(make(tables, context), context, limits)
    except LimitedError:
        raise
    except InfeasibleError as error:
        raise LimitedError(f"{error}; with constraints of {_largest(tables, context, limits)}") from None


def _largest(tables: Tables, context: PlanningContext, limits: TableConstraints) -> str:
    """The largest constrained tables, with their constraints."""
    sizes = context.stored_bytes(tables.rows, tables.dim, tables.element_bytes)
    bound = np.flatnonzero(limits.bound)
    order = bound[np.argsort(-sizes[bound], kind="stable")].tolist()
    return listed([f"{tables.names[table]} ({limits.in_words(table)})" for table in order], _NAMED)


def _check_ways(planner: str, tables: Tables, asked: TableConstraints, limits: TableConstraints) -> None:
    """Every table has a way to be sharded.

    Raises:
        ContradictionError: a table has none.
    """
    for members in asked.sets():
        if limits.ways(members, tables.dim):
            continue
        table, ways = int(members[0]), asked.ways(members, tables.dim)
        name, constraints = tables.names[table], asked.in_words(table)
        if ways:
            message = f"the planner {planner} cannot obey the constraints of {name}"
            expected = f"a planner that gives {' or '.join(ways)}, such as greedy"
        else:
            message = f"the constraints of {name}, with {tables.dim[table]} columns, leave no way to shard it"
            known = np.isin(TYPES, OF_SEQUENCES if tables.sequences else TYPES)
            anything = replace(asked, types=asked.types | known).ways(members, tables.dim)
            expected = f"one of {', '.join(anything)} among its sharding_types, or other constraints"
        raise ContradictionError(
            message, key=key_text((*CONSTRAINTS, name)), given=constraints or planner, expected=expected
        )


def _check_room(tables: Tables, context: PlanningContext, limits: TableConstraints) -> None:
    """The constrained tables alone fit.

    Raises:
        InfeasibleError: a table, or the tables of a device group, need more memory than their ranks have.
    """
    sizes = context.stored_bytes(tables.rows, tables.dim, tables.element_bytes)
    room = context.memory_bytes
    for group in range(1, len(limits.ranks)):
        inside = np.flatnonzero(~(limits.ranks & ~limits.ranks[group]).any(axis=1)[limits.group])
        needed, ranks = float(sizes[inside].sum()), int(limits.ranks[group].sum())
        if needed > ranks * room:
            named = listed([tables.names[table] for table in inside.tolist()], _NAMED)
            raise InfeasibleError(
                f"the tables {named} need {needed / 1e9:.3g} GB, their device_group "
                f"({limits.group_in_words(group)}) has {ranks * room / 1e9:.3g} GB for tables"
            )
    prices = KnownPrices(tables, context)
    for members in limits.sets():
        choices = options_within(limits.ways(members, tables.dim))
        least = min(prices.largest(members, option) for option in choices)
        if least > room:
            table = int(members[0])
            raise InfeasibleError(
                f"the table {tables.names[table]} under its constraints ({limits.in_words(table)}) needs "
                f"{least / 1e9:.3g} GB on a rank, which has {room / 1e9:.3g} GB for tables"
            )


def _conformed(plan: Plan, context: PlanningContext, limits: TableConstraints) -> Plan:
    """The plan with tables that break a constraint placed again.

    Raises:
        InfeasibleError: there is no room.
    """
    bad = _sets_of({found.table for found in broken(plan, limits)}, limits)
    if not len(bad):
        return plan
    wanted = options_in(plan)
    try:
        found = _moved(plan, bad, context, wanted)
    except InfeasibleError:
        found = compose(plan.tables, context, wanted, plan.planner)
    left = next(broken(found, limits), None)
    if left is not None:
        table = plan.tables.names[left.table]
        raise InfeasibleError(f"the planner {plan.planner} breaks the constraint {left.key} of {table}: {left.given}")
    return found


def _sets_of(tables: set[int], limits: TableConstraints) -> IntArray:
    """The tables and those on the same ranks, in their order."""
    sets = [limits.set_of(table) for table in sorted(tables)]
    return np.unique(np.concatenate(sets)) if sets else np.zeros(0, dtype=np.int64)


def _moved(plan: Plan, bad: IntArray, context: PlanningContext, wanted: Sequence[Option]) -> Plan:
    """The plan with the tables ``bad [...]`` placed again, the others where they are.

    Raises:
        InfeasibleError: the others leave no room.
    """
    rest = without(plan, bad)
    return checked(add_tables(rest, context, bad, admitted(plan.tables, context, wanted)))
