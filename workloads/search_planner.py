"""A search that scores plans by simulating them.

It starts from the plans of all other planners, simulates each, and goes on from the fastest: every step draws some
neighbours of the best plan so far, lets the costs of shards choose one of them, simulates it, and keeps it when it is
faster. Its plan is therefore never slower than any other planner's in the simulation that it was given. The number of
steps is its budget, so that the same seed gives the same plan on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from inputs.errors import InfeasibleError
from workloads.costs import rank_loads_s
from workloads.neighbours import neighbour
from workloads.plan import Plan
from workloads.planning import PLANNERS, PlanningContext, make_fitting
from workloads.tables import Tables

NAME = "search"

TOURNAMENTS = (1, 4, 16)
"""Of how many neighbours the one with the lowest cost is simulated, in turn: costs are a rough guide, so some steps
hardly look at them."""


def search(tables: Tables, context: PlanningContext) -> Plan:
    """The fastest plan found; with no steps, or where nobody can simulate, the best by the costs of shards.

    Raises:
        InfeasibleError: no planner finds a plan that fits.
    """
    seeds = starting_plans(tables, context)
    if not context.steps:
        return replace(min(seeds, key=lambda plan: _cost_s(plan, context)), planner=NAME)
    scored = [(_seconds(plan, context), plan) for plan in seeds]
    best_s, best = min(scored, key=lambda pair: pair[0])
    draw = np.random.Generator(np.random.PCG64(context.seed))
    tried = {_key(plan) for plan in seeds}
    for step in range(context.steps):
        candidates = list(_untried(best, context, draw, tried, TOURNAMENTS[step % len(TOURNAMENTS)]))
        if not candidates:
            continue
        candidate = min(candidates, key=lambda plan: _cost_s(plan, context))
        tried.add(_key(candidate))
        seconds = _seconds(candidate, context)
        if seconds < best_s:
            best_s, best = seconds, candidate
    return replace(best, planner=NAME)


def starting_plans(tables: Tables, context: PlanningContext) -> list[Plan]:
    """The plans of all other planners that find one.

    Raises:
        InfeasibleError: none does.
    """
    found: list[Plan] = []
    failure = InfeasibleError("there is no other planner to start from")
    for name, planner in PLANNERS.items():
        if name == NAME:
            continue
        try:
            found.append(make_fitting(planner, tables, context))
        except InfeasibleError as error:
            failure = error if name == "greedy" or not found else failure
    if not found:
        raise failure
    return found


def _untried(
    plan: Plan, context: PlanningContext, draw: np.random.Generator, tried: set[bytes], count: int
) -> Iterator[Plan]:
    """Some of ``count`` drawn neighbours: those that exist and are new."""
    for _ in range(count):
        found = neighbour(plan, context, draw)
        if found is not None and _key(found) not in tried:
            yield found


def _seconds(plan: Plan, context: PlanningContext) -> float:
    return context.simulate_s(plan) if context.simulate_s else _cost_s(plan, context)


def _cost_s(plan: Plan, context: PlanningContext) -> float:
    """What the costs of shards say: all phases, each as long as its slowest rank."""
    return float(rank_loads_s(plan, context.costs).max(axis=0).sum())


def _key(plan: Plan) -> bytes:
    """Equal for equal plans."""
    columns, nodes = plan.columns, plan.nodes
    pieces = [columns.table, columns.rank, columns.column, nodes.table, nodes.node, nodes.column]
    whole = [plan.row_wise, plan.data_parallel, plan.table_column_wise]
    return b"|".join(part.tobytes() for part in (*pieces, *whole))


PLANNERS.add(
    NAME, search, "starts from all other planners' plans, changes them, keeps what the engine simulates faster"
)
