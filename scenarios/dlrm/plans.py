"""The sharding plan of a scenario: read, or made by a planner for this machine, within its memory."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from inputs.errors import InfeasibleError, InputError
from scenarios.capacity import MemoryReport, capacities_bytes
from scenarios.dlrm.constraints import table_constraints
from scenarios.dlrm.kernels import kernel_choice
from scenarios.dlrm.rates import machine_times
from scenarios.dlrm.refusal import infeasible
from scenarios.dlrm.remedies import OF_TABLES, Found
from scenarios.dlrm.remedy_settings import SEARCH, SPREADING
from scenarios.dlrm.resolving import PLAN
from scenarios.dlrm.settings import settings_of
from scenarios.dlrm.typed import DlrmResolved, dlrm_of
from scenarios.engine_run import iteration_alone_s, iteration_s
from scenarios.located import located
from scenarios.machine import machine_of
from scenarios.resolved import ResolvedScenario
from simulator.lowering import Machine
from workloads.dlrm.family import DlrmWorkload
from workloads.dlrm.iteration.memory import bytes_beside_tables
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.tables import Tables, expand_tables
from workloads.dlrm.sharding import (
    EngineCosts,
    fit_rows,
    make_fitting,
    make_sharding_plan,
    plan_cost_s,
    plan_from_dict,
)
from workloads.dlrm.sharding.conforming import ContradictionError
from workloads.dlrm.sharding.interfaces import Planner, PlanningContext
from workloads.dlrm.sharding.obeyed import check_obeyed
from workloads.dlrm.sharding.placing import too_much
from workloads.dlrm.sharding.plan import Plan

NO_ROOM = "memory beside tables fills a rank"
OVER_CAPACITY = "a rank needs more memory than it has"

SEARCH_RANK_STEPS, MOST_STEPS, LEAST_STEPS = 16_384, 128, 8
"""Steps of a search when the scenario says nothing: so many over the number of ranks, within these bounds."""


@dataclass(slots=True)
class PlanningJob:
    """A job to plan for: the planners' inputs, and checks of a plan's memory and speed.

    Attributes:
        settings: the job as generators see it.
        machine: the models of the placed cluster.
        context: the planners' inputs.
        simulated: whether a planner simulated iterations.
    """

    resolved: DlrmResolved
    settings: DlrmSettings
    machine: Machine
    tables: Tables = field(init=False)
    context: PlanningContext = field(init=False)
    simulated: bool = field(default=False, init=False)
    _latest: DlrmWorkload | None = field(init=False, default=None)
    _simulated: dict[bytes, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        resolved, settings = self.resolved, self.settings
        self.tables = expand_tables(resolved.model, settings.precision.tables)
        beside = bytes_beside_tables(resolved.model, self.tables, settings)
        sharding = resolved.scenario.workload.sharding
        capacity = capacities_bytes(resolved.cluster, resolved.world_size)
        self.context = PlanningContext(
            world_size=settings.world_size,
            local_world_size=settings.local_world_size,
            memory_bytes=capacity["hbm"] - beside,
            costs=EngineCosts(self.tables, settings, machine_times(resolved.cluster, self.machine, settings)),
            optimizer=settings.optimizer.tables,
            dense_optimizer=settings.optimizer.dense,
            simulate_s=self.simulate_s,
            alone_s=self.alone_s,
            excess_bytes=lambda plan: self.report(plan).worst_excess_bytes,
            choice=kernel_choice(sharding, self.tables, capacity),
            constraints=table_constraints(sharding, self.tables, settings.world_size, settings.local_world_size),
            locks_cache=settings.locks_cache,
            steps=_steps(settings.world_size) if sharding.steps is None else sharding.steps,
            seed=sharding.seed,
        )

    @classmethod
    def of(cls, resolved: ResolvedScenario) -> PlanningJob:
        """The job of a scenario.

        Raises:
            InputError: the models refuse the scenario, or it trains no DLRM.
        """
        found = dlrm_of(resolved, "sharding")
        with located(found.document):
            return cls(found, settings_of(found), machine_of(found))

    def workload(self, plan: Plan) -> DlrmWorkload:
        """The job under a plan, the same object as long as the plan is the same one."""
        if self._latest is None or self._latest.plan is not plan:
            self._latest = DlrmWorkload(self.resolved.model, plan, self.settings)
        return self._latest

    def report(self, plan: Plan) -> MemoryReport:
        """Memory use of each rank under a plan against its capacity."""
        return MemoryReport(
            self.workload(plan).memory(), capacities_bytes(self.resolved.cluster, self.resolved.world_size)
        )

    def simulate_s(self, plan: Plan, at_most_s: float = inf) -> float:
        """Seconds per iteration as a run of the scenario would find them; infinite when the plan does not fit.

        It may be infinite as well, sooner, when an iteration takes longer than ``at_most_s``.
        """
        self.simulated = True
        key = plan.key
        if key in self._simulated:
            return self._simulated[key]
        if not self.report(plan).fits:
            return inf
        found = iteration_s(self.resolved, self.workload(plan), self.machine, at_most_s)
        if found < inf:
            self._simulated[key] = found
        return found

    def alone_s(self, plan: Plan) -> float:
        """`scenarios.engine_run.iteration_alone_s` under a plan; infinite if it or a graph change does not fit."""
        if not self.report(plan).fits:
            return inf
        try:
            return iteration_alone_s(self.resolved, self.workload(plan), self.machine)
        except InputError:
            return inf

    def make(self, planner: str, *, advise: bool = False) -> Plan:
        """The plan of a planner, within the memory of every rank.

        Args:
            planner: its name.
            advise: whether the error also lists remedies, which are tried.

        Raises:
            InputError: there is no such planner.
            ContradictionError: constraints of a table leave no way to shard it with this planner.
            InfeasibleError: nothing it finds fits; the message has the numbers of each tier and remedies.
        """
        if self.context.memory_bytes <= 0:
            raise self.infeasible(NO_ROOM, advise=advise)
        if not self.can_fit:
            raise self.infeasible(too_much(self.tables, self.context), advise=advise)
        fitted = self.resolved.scenario.workload.rows_scaling == "fit"
        make: Planner = partial(fit_rows if fitted else make_sharding_plan, planner)
        try:
            return self._fitting(make, self.context)
        except NothingFitsError as error:
            if not self.context.hasty:  # a hasty plan is the last resort: what fits in a remedy fits in a run
                with suppress(NothingFitsError):
                    return self._fitting(make, replace(self.context, steps=0, hasty=True))
            raise self.infeasible(str(error), error.report, advise=advise) from None

    def _fitting(self, make: Planner, context: PlanningContext) -> Plan:
        """The first plan that fits.

        Raises:
            NothingFitsError: none does.
        """
        last = _Last(hasty=context.hasty)
        try:
            return make_fitting(
                make, self.tables, replace(context, excess_bytes=lambda plan: last.keep(self.report(plan)))
            )
        except InfeasibleError as error:
            raise NothingFitsError(OVER_CAPACITY if last.report else str(error), last.report) from None

    def infeasible(self, why: str, report: MemoryReport | None = None, *, advise: bool) -> InfeasibleError:
        """The error for a job that does not fit."""
        attempt = _attempt if advise else None
        return infeasible(self.resolved, why, tables=self.tables, context=self.context, report=report, attempt=attempt)

    @property
    def can_fit(self) -> bool:
        """False if all tables, spread evenly, exceed the device memory that must hold them."""
        if self.context.choice is not None or self.resolved.scenario.workload.rows_scaling == "fit":
            return True
        return self.context.least_bytes(self.tables) <= self.context.memory_bytes * self.context.world_size


def _attempt(resolved: DlrmResolved, *, hasty: bool) -> Found | None:
    """The plan of a scenario, None if no plan fits; a search planner stops at its first plan that fits."""
    job = PlanningJob.of(resolved)
    if not job.can_fit:
        return None
    job.context = replace(job.context, steps=0, hasty=hasty)
    searches = resolved.scenario.workload.sharding.planner == SEARCH
    for planner in SPREADING if searches else (None,):
        try:
            plan = plan_of(job, advise=False) if planner is None else job.make(planner)
        except (InfeasibleError, ContradictionError):
            continue
        costs = job.context.costs.of(plan.tables).stored(plan.storage)
        return Found(job.report(plan), plan_cost_s(plan, costs), plan.rows_scale, searches or hasty)
    return None


class NothingFitsError(InfeasibleError):
    """No plan fits; ``report``: memory of the last one that was looked at, None where none could be made."""

    def __init__(self, message: str, report: MemoryReport | None) -> None:
        """Store both."""
        super().__init__(message)
        self.report = report


@dataclass(slots=True)
class _Last:
    """Remembers the memory of the last plan that was looked at."""

    hasty: bool
    report: MemoryReport | None = None

    def keep(self, report: MemoryReport) -> float:
        """Its excess, bytes; infinite where a hasty planner need not try again with less room for tables."""
        self.report = report
        if self.hasty and report.largest_factor(OF_TABLES) < 0.0:
            return inf
        return report.worst_excess_bytes


def plan_of(job: PlanningJob, *, advise: bool = True) -> Plan:
    """The plan of a job's scenario, read or made.

    Raises:
        InputError: the plan or the planner's name is wrong.
        InfeasibleError: it does not fit; the message has the numbers of each tier and remedies.
    """
    sharding, settings = job.resolved.scenario.workload.sharding, job.settings
    if not isinstance(sharding.plan, dict):
        return job.make(sharding.planner or "", advise=advise)
    with located(*job.resolved.places[PLAN]):
        plan = plan_from_dict(sharding.plan, job.tables, settings.world_size, settings.local_world_size)
        if job.context.constraints is not None:
            check_obeyed(plan, job.context.constraints, sharding.plan["plan"])
    report = job.report(plan)
    if not report.fits:
        raise job.infeasible(OVER_CAPACITY, report, advise=advise)
    return plan


def _steps(world_size: int) -> int:
    return max(LEAST_STEPS, min(MOST_STEPS, SEARCH_RANK_STEPS // world_size))
