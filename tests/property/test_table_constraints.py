"""Plans under constraints of single tables: obeyed, costing at least as much, and the same where nothing is asked."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from inputs.errors import InfeasibleError
from tests.property.test_sharding_plans import tables_of, times_placed
from tests.workload_jobs import context_for, settings_for
from workloads.dlrm.model.tables import in_order
from workloads.dlrm.sharding import PLANNERS, make_sharding_plan, plan_cost_s, plan_to_dict
from workloads.dlrm.sharding.composing import compose
from workloads.dlrm.sharding.conforming import GIVEN, ContradictionError
from workloads.dlrm.sharding.constraints import ALONE, TYPES, TableConstraints, free_tables
from workloads.dlrm.sharding.interfaces import PlanningContext
from workloads.dlrm.sharding.obeyed import broken
from workloads.dlrm.sharding.options import Option, options_for, options_of
from workloads.dlrm.sharding.plan import Plan

Rows: TypeAlias = list[tuple[int, int, float]]
"""Rows, columns and pooling factor of each table."""

LOCAL = 2
ROOM_BYTES = 1e12

TABLES = st.lists(
    st.tuples(st.integers(1, 20_000), st.sampled_from([4, 8, 12, 30, 64, 128]), st.floats(0.5, 100.0)),
    min_size=1,
    max_size=7,
)

FEW = st.lists(
    st.tuples(st.integers(1, 9_000), st.sampled_from([4, 8, 16]), st.floats(0.5, 50.0)), min_size=1, max_size=3
)


def drawn_limits(data: st.DataObject, count: int, world_size: int) -> TableConstraints:
    """Constraints of any kind on some of the tables."""
    limits = free_tables(count, world_size, min(LOCAL, world_size))
    some = st.lists(st.integers(0, world_size - 1), min_size=1, unique=True)
    groups = [np.isin(np.arange(world_size), ranks) for ranks in data.draw(st.lists(some, max_size=2))]
    limits = replace(limits, ranks=np.stack([limits.ranks[0], *groups]))
    types = st.lists(st.sampled_from(TYPES), min_size=1, unique=True)
    for table in range(count):
        if data.draw(st.booleans()):
            limits.types[table] = np.isin(TYPES, data.draw(types))
        limits.least_dim[table] = data.draw(st.sampled_from([0, 0, 8, 30, 64]))
        limits.group[table] = data.draw(st.integers(0, len(groups)))
        limits.together[table] = data.draw(st.sampled_from([ALONE, ALONE, 0, 1]))
    for number in (0, 1):
        members = np.flatnonzero(limits.together == number)
        if len(members) < 2:
            limits.together[members] = ALONE
            continue
        limits.types[members] = limits.types[members].all(axis=0)
        limits.group[members] = limits.group[members[0]]
    return limits


def planned(planner: str, rows: Rows, limits: TableConstraints, room: float) -> Plan:
    """The plan, for a machine with room for everything unless less is asked."""
    tables, world_size = tables_of(rows), limits.ranks.shape[1]
    job = settings_for("zionex_i", world_size, local_world_size=LOCAL)
    context = replace(context_for(tables, job, room), constraints=limits, steps=12)
    return make_sharding_plan(planner, tables, context)


@given(TABLES, st.sampled_from(PLANNERS.names()), st.sampled_from([1, 2, 3, 4, 8]), st.data())
@settings(max_examples=100, deadline=None)
def test_a_plan_obeys_the_constraints(rows: Rows, planner: str, world_size: int, data: st.DataObject) -> None:
    """Types, widths, ranks and sets, read from the shards of the plan; every element is placed once."""
    limits = drawn_limits(data, len(rows), world_size)
    room = data.draw(st.sampled_from([ROOM_BYTES, 2e6]))
    try:
        plan = planned(planner, rows, limits, room)
    except (InfeasibleError, ContradictionError):
        return
    shards, kinds, dims = plan.shards(), plan.sharding_types, plan.tables.dim
    everywhere = np.arange(world_size)
    held: list[list[int]] = []
    for table, kind in enumerate(kinds):
        assert limits.types[table, TYPES.index(kind)]
        mine = shards.table == table
        assert np.all((shards.dim[mine] >= limits.least_dim[table]) | (shards.dim[mine] == dims[table]))
        held.append(sorted(set((everywhere if kind == "row_wise" else shards.rank[mine]).tolist())))
        assert set(held[table]) <= set(np.flatnonzero(limits.ranks[limits.group[table]]).tolist())
        expected = world_size if kind == "data_parallel" else 1
        assert np.all(times_placed(plan, table) == expected)
    for number in (0, 1):
        members = np.flatnonzero(limits.together == number)
        ranks = [set(holding(plan, table)) for table in members.tolist()]
        assert all(found == ranks[0] for found in ranks)
    assert not any(broken(plan, limits))


def holding(plan: Plan, table: int) -> list[int]:
    """Ranks that hold a table; a node holds its tables as a whole, also without a row on each rank."""
    if plan.sharding_types[table] in ("row_wise", "data_parallel"):
        return list(range(plan.world_size))
    nodes = plan.nodes.node[plan.nodes.table == table].tolist()
    ranks = [node * LOCAL + place for node in nodes for place in range(LOCAL)]
    return ranks + plan.columns.rank[plan.columns.table == table].tolist()


@given(TABLES, st.sampled_from(PLANNERS.names()), st.sampled_from([2, 4, 8]), st.data())
@settings(max_examples=60, deadline=None)
def test_only_contradictions_stop_a_planner_with_room_for_everything(
    rows: Rows, planner: str, world_size: int, data: st.DataObject
) -> None:
    """A contradiction leaves a table no option among the types of the planner; otherwise there is a plan."""
    limits = drawn_limits(data, len(rows), world_size)
    context = context_of(rows, limits)
    within = replace(context, constraints=limits.within(GIVEN.get(planner)))
    possible = all(options_for(tables_of(rows), within, int(members[0])) for members in limits.sets())
    if possible:
        planned(planner, rows, limits, ROOM_BYTES)
    else:
        with pytest.raises(ContradictionError, match="constraints of t"):
            planned(planner, rows, limits, ROOM_BYTES)


def context_of(rows: Rows, limits: TableConstraints | None, world_size: int = 0) -> PlanningContext:
    """Inputs of a planner with room for everything."""
    count = world_size if limits is None else limits.ranks.shape[1]
    job = settings_for("zionex_i", count, local_world_size=LOCAL)
    return replace(context_for(tables_of(rows), job, ROOM_BYTES), constraints=limits)


@given(TABLES, st.sampled_from(PLANNERS.names()), st.sampled_from([1, 2, 4, 8]), st.floats(2e4, 1e7))
@settings(max_examples=40, deadline=None)
def test_constraints_that_admit_everything_change_nothing(
    rows: Rows, planner: str, world_size: int, room: float
) -> None:
    tables, job = tables_of(rows), settings_for("zionex_i", world_size, local_world_size=LOCAL)
    context = context_for(tables, job, room)
    limits = free_tables(len(tables), world_size, job.local_world_size)
    found: list[object] = []
    for constraints in (None, limits):
        try:
            plan = make_sharding_plan(planner, tables, replace(context, constraints=constraints))
            found.append(plan_to_dict(plan))
        except InfeasibleError:
            found.append("infeasible")
    assert found[0] == found[1]


@given(FEW, st.data())
@settings(max_examples=25, deadline=None)
def test_a_constrained_plan_costs_at_least_the_cheapest_of_all(rows: Rows, data: st.DataObject) -> None:
    """The costs of all plans for 2 ranks, each column shard on each rank, against planners under constraints."""
    tables, context = tables_of(rows), context_of(rows, None, 2)
    cheapest = min(plan_cost_s(plan, context.costs) for plan in every_plan(rows, context))
    limits = drawn_limits(data, len(rows), 2)
    for planner in ("greedy", "dynamic_programming", "search"):
        try:
            plan = planned(planner, rows, limits, ROOM_BYTES)
        except ContradictionError:
            return
        assert plan_cost_s(plan, context.costs) >= cheapest * (1 - 1e-12)
    assert len(tables) == len(plan.tables)


def every_plan(rows: Rows, context: PlanningContext) -> list[Plan]:
    """Plans with every option of each table, and every rank of each of their column shards."""
    tables, found = tables_of(rows), []
    choices = [[*options_of(int(dim), context), Option("table_row_wise")] for dim in tables.dim]
    for options in product(*choices):
        plan = compose(tables, context, list(options), "every")
        for ranks in product(range(2), repeat=len(plan.columns)):
            columns = replace(plan.columns, rank=np.array(ranks, dtype=np.int64))
            found.append(replace(plan, columns=columns))
    return found


@given(TABLES, st.sampled_from(["greedy", "dynamic_programming", "hot", "zigzag", "search"]), st.data())
@settings(max_examples=30, deadline=None)
def test_constrained_plans_do_not_depend_on_the_order_of_tables(rows: Rows, planner: str, data: st.DataObject) -> None:
    limits = drawn_limits(data, len(rows), 4)
    order = np.array(data.draw(st.permutations(range(len(rows)))), dtype=np.int64)
    tables, context = tables_of(rows), context_of(rows, limits)
    assume(len(set(rows)) == len(rows))
    shuffled = in_order(tables, order)
    there = replace(context, costs=context.costs.of(shuffled), constraints=limits.at(order))
    try:
        plan = make_sharding_plan(planner, tables, context)
    except ContradictionError:
        with pytest.raises(ContradictionError):
            make_sharding_plan(planner, shuffled, there)
        return
    assert make_sharding_plan(planner, shuffled, there).key == plan.key
