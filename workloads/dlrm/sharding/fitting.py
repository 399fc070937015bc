"""Plans that fit: by a named planner, again with less room, or with fewer rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

from inputs.errors import InfeasibleError
from workloads.dlrm.model.tables import Tables, scale_rows
from workloads.dlrm.sharding.conforming import conforming
from workloads.dlrm.sharding.interfaces import PLANNERS, Planner, PlanningContext
from workloads.dlrm.sharding.offload import offload
from workloads.dlrm.sharding.plan import Plan
from workloads.dlrm.sharding.table_order import in_one_order


def make_sharding_plan(planner: str, tables: Tables, context: PlanningContext) -> Plan:
    """Plan with the named planner, which gets the tables in sorted order for any order of ``tables``.

    Raises:
        InputError: no such planner.
        ContradictionError: constraints of a table leave no way to shard it with this planner.
        InfeasibleError: the tables do not fit; the message has the numbers.
    """
    make = partial(conforming, planner, PLANNERS.get(planner, key="workload.sharding.planner"))
    return in_one_order(partial(_made, make), tables, context)


def _made(make: Planner, tables: Tables, context: PlanningContext) -> Plan:
    """The plan of a planner; with a choice of kernels, for tables with the chosen kernels."""
    return make(tables, context) if context.choice is None else offload(make, tables, context, context.choice)


ATTEMPTS = 6
"""Most attempts at a plan: memory beside tables depends on the plan, so a plan that exceeds it is made again with so
much less room."""

MARGIN, MEBIBYTE = 1.1, 2.0**20
"""So much more than the excess is taken off, at least a MiB: otherwise the last bytes of excess never go."""

OVER_CAPACITY = "a rank needs more memory than it has"


def make_fitting(make: Planner, tables: Tables, context: PlanningContext) -> Plan:
    """Plan with ``make``, and again with less room for tables while a rank holds too much of everything.

    Raises:
        InfeasibleError: no attempt fits.
    """
    for attempt in range(ATTEMPTS):
        try:
            plan = make(tables, context)
        except InfeasibleError:
            if attempt == 0:
                raise
            break
        excess = context.excess_bytes(plan) if context.excess_bytes else 0.0
        if excess <= 0:
            return plan
        context = replace(context, memory_bytes=context.memory_bytes - MARGIN * max(excess, MEBIBYTE))
        if context.memory_bytes <= 0:
            break
    raise InfeasibleError(OVER_CAPACITY)


def fit_rows(planner: str, tables: Tables, context: PlanningContext) -> Plan:
    """Plan with all rows shrunk by one factor, the largest (to 1 %) with which the plan fits; 1 when it fits anyway.

    The paper scaled its tables down so that they fit on few nodes (arXiv 2104.05158, scaling section, recalled).

    Only the last call, with the rows that fit and their costs, searches for better plans.

    Raises:
        InfeasibleError: not even a thousandth of the rows fits.
    """
    make = partial(conforming, planner, PLANNERS.get(planner, key="workload.sharding.planner"))
    return in_one_order(partial(_fitted, partial(_made, make)), tables, context)


def _fitted(make: Planner, tables: Tables, context: PlanningContext) -> Plan:
    try:
        return make(tables, context)
    except InfeasibleError:
        stored = context.stored_bytes(tables.rows, tables.dim, tables.element_bytes).sum()
    high = min(1.0, max(0.0, context.memory_bytes) * context.world_size / float(stored))
    searched = replace(context, steps=0, hasty=True)
    low, best = _first_fit(make, tables, searched, high)
    high = min(high, low / _SHRINK)
    while high > _CLOSE * low:
        middle = (low * high) ** 0.5
        try:
            low, best = middle, make(scale_rows(tables, middle), searched)
        except InfeasibleError:
            high = middle
    with suppress(InfeasibleError):
        scaled = scale_rows(tables, low)
        best = make(scaled, replace(context, costs=context.costs.of(scaled)))
    return replace(best, rows_scale=low)


_SHRINK, _CLOSE, _LEAST = 0.8, 1.01, 1e-3
"""Factor of each attempt to fit, how close the largest fitting factor is approached, and the least one tried."""


def _first_fit(make: Planner, tables: Tables, context: PlanningContext, factor: float) -> tuple[float, Plan]:
    """The first factor at or below ``factor`` that fits, and its plan."""
    while True:
        try:
            return factor, make(scale_rows(tables, factor), context)
        except InfeasibleError:
            if factor * _SHRINK < _LEAST:
                raise
            factor *= _SHRINK
