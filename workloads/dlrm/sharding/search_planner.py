"""A search that scores plans by simulating them.

It starts from the plans of all other planners and some of its own, simulates each, and goes on from the fastest: every
step draws some neighbours of the best plan so far, lets the costs of shards choose one of them, simulates it, and keeps
it when it is faster (or as fast, where the tables bound nothing, and better by its costs). Its plan is therefore never
slower than any other planner's in the simulation that it was given. The number of steps is its budget, so that the same
seed gives the same plan on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf

import numpy as np

from inputs.errors import InfeasibleError
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.composing import compose
from workloads.dlrm.sharding.conforming import ContradictionError, conforming
from workloads.dlrm.sharding.costs import plan_cost_s
from workloads.dlrm.sharding.fitting import make_fitting
from workloads.dlrm.sharding.interfaces import PLANNERS, PlanningContext
from workloads.dlrm.sharding.neighbours import neighbour
from workloads.dlrm.sharding.options import Option
from workloads.dlrm.sharding.placing import all_tables, wanted_pieces
from workloads.dlrm.sharding.plan import Plan

NAME = "search"

TOURNAMENTS = (1, 3, 8)
"""Tournament sizes, used in turn: the cheapest of so many neighbours is simulated. Costs are a rough guide, so some
steps hardly look at them."""


CUT_SHARES = (2.0, 1.0, 0.5, 0.25, 0.125)
"""A column shard of a further starting plan costs at most this share of a rank's mean load in any phase."""


def search(tables: Tables, context: PlanningContext) -> Plan:
    """The fastest plan found; with no steps, or where the caller cannot simulate, the best by the costs of shards.

    Raises:
        InfeasibleError: no planner finds a plan that fits.
    """
    seeds = [*starting_plans(tables, context), *_cut_by_columns(tables, context)]
    if not context.steps:
        return replace(min(seeds, key=lambda plan: plan_cost_s(plan, context.costs)), planner=NAME)
    score, best = min(((_score(plan, context, inf), plan) for plan in seeds), key=lambda pair: pair[0])
    draw = np.random.Generator(np.random.PCG64(context.seed))
    tried = {plan.key for plan in seeds}
    for step in range(context.steps):
        candidates = list(_untried(best, context, draw, tried, TOURNAMENTS[step % len(TOURNAMENTS)]))
        if not candidates:
            continue
        candidate = min(candidates, key=lambda plan: plan_cost_s(plan, context.costs))
        tried.add(candidate.key)
        found = _score(candidate, context, score[0])
        if found < score:
            best, score = candidate, found
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
            found.append(make_fitting(partial(conforming, name, planner), tables, context))
        except InfeasibleError as error:
            failure = error if name == "greedy" or not found else failure
        except ContradictionError:  # constraints that this planner cannot obey
            continue
    if not found:
        raise failure
    return found


def _cut_by_columns(tables: Tables, context: PlanningContext) -> Iterator[Plan]:
    """Plans of one kind of sharding, hence with the fewest kernels and collectives, cut more and more finely."""
    for share in CUT_SHARES:
        pieces = wanted_pieces(tables, all_tables(tables), context, context.memory_bytes, share)
        options = [Option("column_wise", int(count)) for count in pieces]
        with suppress(InfeasibleError):
            yield compose(tables, context, options, NAME)


def _untried(
    plan: Plan, context: PlanningContext, draw: np.random.Generator, tried: set[bytes], count: int
) -> Iterator[Plan]:
    """Some of ``count`` drawn neighbours: those that exist and are new."""
    for _ in range(count):
        found = neighbour(plan, context, draw)
        if found is not None and found.key not in tried:
            yield found


def _score(plan: Plan, context: PlanningContext, at_most_s: float) -> tuple[float, float]:
    """Seconds as simulated, and as the costs say."""
    cost_s = plan_cost_s(plan, context.costs)
    return (context.simulate_s(plan, at_most_s) if context.simulate_s else cost_s, cost_s)


PLANNERS.add(
    NAME, search, "starts from all other planners' plans, changes them, keeps plans that the engine simulates as faster"
)
