"""The sharding plan of a scenario: read, or made by a planner for this machine, within its memory."""

from __future__ import annotations

from dataclasses import replace

from inputs.errors import InfeasibleError
from scenarios.capacity import MemoryReport, capacities_bytes, infeasible
from scenarios.located import located
from scenarios.resolve import ResolvedScenario
from simulator.lowering import Machine
from simulator.network import idle_call
from simulator.operators import CollectiveOp
from workloads.memory import bytes_beside_tables, memory_per_rank
from workloads.plan import Plan, plan_from_dict
from workloads.planning import PlanningContext
from workloads.settings import DlrmSettings
from workloads.sharding import BandwidthCosts, fit_rows, make_sharding_plan
from workloads.tables import Tables, expand_tables

COSTED_BYTES = 256e6
"""Message at which planners are told the rates of collectives, bytes: the one the published rates were taken at."""

PLANNING_ATTEMPTS = 3
"""What is not for tables depends on the plan: a plan that is over by that is made again with so much less room."""

MARGIN, MEBIBYTE = 1.1, 2.0**20
"""So much more than the excess is taken off, at least a MiB: otherwise the last bytes of excess never go."""

NO_ROOM = "what is not for tables fills a rank"
OVER_CAPACITY = "a rank holds more than it may"


def make_fitting_plan(
    resolved: ResolvedScenario, settings: DlrmSettings, machine: Machine
) -> tuple[Plan, MemoryReport]:
    """The plan of a scenario, and the memory it needs.

    Raises:
        InputError: the plan or the planner's name is wrong.
        InfeasibleError: it does not fit; the message has the numbers of each tier and what would fit.
    """
    tables = expand_tables(resolved.model, settings.precision.tables)
    context = _context(resolved, settings, machine, tables)
    given = resolved.scenario.workload.sharding.plan
    attempts = 1 if given is not None else PLANNING_ATTEMPTS
    report = None
    for _ in range(attempts):
        if context.memory_bytes <= 0:
            raise infeasible(resolved, NO_ROOM, tables=tables, context=context, report=report)
        try:
            plan = _plan(resolved, tables, context)
        except InfeasibleError as error:
            why = OVER_CAPACITY if report else str(error)
            raise infeasible(resolved, why, tables=tables, context=context, report=report) from None
        report = _report(resolved, plan, settings)
        if report.fits:
            return plan, report
        less = MARGIN * max(report.excess_bytes("hbm"), MEBIBYTE)
        context = replace(context, memory_bytes=context.memory_bytes - less)
    raise infeasible(resolved, OVER_CAPACITY, tables=tables, context=context, report=report)


def _plan(resolved: ResolvedScenario, tables: Tables, context: PlanningContext) -> Plan:
    workload = resolved.scenario.workload
    if isinstance(workload.sharding.plan, dict):
        with located(*resolved.plan_place):
            return plan_from_dict(workload.sharding.plan, tables, context.world_size)
    make = fit_rows if workload.rows_scaling == "fit" else make_sharding_plan
    return make(workload.sharding.planner or "", tables, context)


def _context(resolved: ResolvedScenario, settings: DlrmSettings, machine: Machine, tables: Tables) -> PlanningContext:
    beside = bytes_beside_tables(resolved.model, tables, settings)
    costs = BandwidthCosts(
        tables,
        settings,
        embedding_bytes_per_s=resolved.cluster.node.accelerator.achieved.embedding_bytes_per_s.value,
        all_to_all_bytes_per_s=_algbw_bytes_per_s(machine, "all_to_all"),
        all_reduce_bytes_per_s=_algbw_bytes_per_s(machine, "all_reduce"),
    )
    return PlanningContext(
        world_size=settings.world_size,
        local_world_size=settings.local_world_size,
        memory_bytes=capacities_bytes(resolved.cluster)["hbm"] - beside,
        costs=costs,
        optimizer=settings.optimizer.tables,
        dense_optimizer=settings.optimizer.dense,
    )


def _algbw_bytes_per_s(machine: Machine, op: CollectiveOp) -> float:
    """Rate of a collective over all ranks on the idle machine; infinite for one rank, which moves nothing."""
    call = idle_call(machine.collectives, op, COSTED_BYTES)
    seconds = float(machine.collectives.time(call).seconds.max())
    return COSTED_BYTES / seconds if seconds > 0 else float("inf")


def _report(resolved: ResolvedScenario, plan: Plan, settings: DlrmSettings) -> MemoryReport:
    return MemoryReport(memory_per_rank(resolved.model, plan, settings), capacities_bytes(resolved.cluster))
