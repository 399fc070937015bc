"""Strategies of a DLRM: planner of its tables, and strategies of its dense layers before and behind the interaction.

A planner shards the tables; one planner copies all tables. Dense layers are data-parallel, FSDP or tensor-parallel
within a node and between nodes. Each planner plans once, for the dense strategies that leave the most memory for
tables. If this plan does not fit with other dense strategies, the planner plans again for them. The scenario's own
strategies have the plan of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, TypeAlias

from inputs.errors import InfeasibleError, InputError
from scenarios.capacity import capacities_bytes
from scenarios.dlrm.levers import planners_tried
from scenarios.dlrm.placed import PlacedDlrm
from scenarios.dlrm.plans import PlanningJob, plan_of
from scenarios.dlrm.resolving import why_undivided
from scenarios.dlrm.sequences import UNDIVIDED_STACK
from scenarios.dlrm.settings import settings_of
from scenarios.dlrm.typed import DlrmResolved
from scenarios.engine_run import variation_of
from scenarios.prepare import Prepared
from scenarios.schedules import transformed
from scenarios.strategies import StrategyFound, results_of
from simulator.analysis import least_iteration_s
from simulator.lowering import Machine, lower
from workloads.dlrm.family import DlrmWorkload
from workloads.dlrm.iteration.layer_parts import layer_parts
from workloads.dlrm.iteration.memory import bytes_beside_tables
from workloads.dlrm.model.choices import DenseStrategies
from workloads.dlrm.model.dense import dense_part
from workloads.dlrm.sharding.conforming import ContradictionError
from workloads.dlrm.sharding.plan import Plan
from workloads.dlrm.sharding.plan_exchange import plan_to_dict
from workloads.dlrm.sharding.plan_file import read_plan
from workloads.graph.levels import LevelStrategies, all_levels

OWN = "the scenario's"
"""Name of the scenario's own plan."""


@dataclass(frozen=True, slots=True)
class DlrmChoice:
    """Strategies of a DLRM.

    Attributes:
        tables: a planner, or `OWN`.
        apart: whether the plan is made for these dense strategies instead of the strategies that leave the most memory;
            ignored by comparisons.
    """

    tables: str
    bottom: LevelStrategies
    top: LevelStrategies
    apart: bool = field(default=False, compare=False)

    @property
    def dense(self) -> DenseStrategies:
        """Strategies of the dense layers."""
        return DenseStrategies(bottom=self.bottom, top=self.top)


Classes: TypeAlias = tuple[LevelStrategies, LevelStrategies]


@dataclass(slots=True)
class DlrmStrategies:
    """Strategies of a scenario; see `scenarios.strategies.StrategySpace`."""

    resolved: DlrmResolved
    own: DlrmChoice = field(init=False)
    capacity_bytes: float = field(init=False)
    impossible: list[StrategyFound] = field(default_factory=list)
    _job: PlanningJob = field(init=False)
    _machine: Machine = field(init=False)
    _dense: list[Classes] = field(init=False)
    _roomiest: Classes = field(init=False)
    _plans: dict[DlrmChoice, Plan | str] = field(default_factory=dict)
    _looked: dict[tuple[str, ...], DlrmChoice] = field(default_factory=dict)

    def __post_init__(self) -> None:
        resolved = self.resolved
        chosen = resolved.scenario.workload
        dense = chosen.dense or DenseStrategies()
        planner = OWN if chosen.sharding.plan is not None else (chosen.sharding.planner or OWN)
        self.own = DlrmChoice(planner, dense.bottom.on(*self._levels), dense.top.on(*self._levels), apart=True)
        self.capacity_bytes = float(capacities_bytes(resolved.cluster, resolved.world_size)["hbm"])
        self._job = PlanningJob.of(resolved)
        self._machine = self._job.machine
        self._dense = list(self._possible())
        self._roomiest = min(self._dense, key=self._beside_bytes)

    def choices(self) -> Iterator[DlrmChoice]:
        """All pairs of strategies of the dense layers and planner of the tables."""
        tried = planners_tried(self.resolved.model) if self.resolved.world_size > 1 else ()
        planners = dict.fromkeys([self.own.tables, *tried])
        for tables, (bottom, top) in product(planners, self._dense):
            yield DlrmChoice(tables, bottom, top)

    def least_s(self, choice: DlrmChoice) -> float:
        """Lower bound of the lowered graph, seconds; 0 without a plan, if iterations vary or no change applies."""
        plan = self._plan(choice)
        if isinstance(plan, str):
            return 0.0
        try:
            graph, _ = transformed(self.resolved, self._workload(choice, plan).graph(), self._machine)
        except InputError:
            return 0.0
        return least_iteration_s(lower(graph, self._machine, variation=variation_of(self.resolved)).program)

    def looked_at(self, choice: DlrmChoice, *, own: bool = False) -> StrategyFound:
        """Strategies with their plan's memory."""
        plan, words, settings = self._plan(choice), self.words(choice), self._settings(choice)
        if isinstance(plan, str):
            return StrategyFound(words, settings, why=plan, own=own)
        resolved = self._with(choice)
        memory = PlanningJob(resolved, settings_of(resolved), self._machine).report(plan)
        return StrategyFound(
            words,
            settings,
            memory.most_bytes,
            memory.worst_excess_bytes,
            memory.fullest_items(),
            self.least_s(choice) if memory.fits else 0.0,
            own=own,
        )

    def again(self, choice: DlrmChoice) -> DlrmChoice | None:
        """The same strategies with a plan made for these dense layers."""
        if choice.apart or choice.tables == OWN or (choice.bottom, choice.top) == self._roomiest:
            return None
        again = replace(choice, apart=True)
        return None if isinstance(self._plan(again), str) else again

    def words(self, choice: DlrmChoice) -> Mapping[str, str]:
        """Planner of the tables, and strategies of the dense layers."""
        return {"tables": choice.tables, "bottom": choice.bottom.in_words(), "top": choice.top.in_words()}

    def results(self, found: StrategyFound, at_most_s: float) -> dict[str, Any]:
        """See `scenarios.strategies.results_of`."""
        choice = self._looked[found.settings]
        plan = self._plan(choice)
        if isinstance(plan, str):
            raise InfeasibleError(plan)
        resolved, workload = self._with(choice), self._workload(choice, plan)
        memory = PlanningJob(resolved, workload.settings, self._machine).report(plan)
        graph, changes = transformed(resolved, workload.graph(), self._machine)
        prepared = Prepared(
            resolved, self._machine, PlacedDlrm(resolved, workload, self._machine), memory, graph, changes
        )
        return results_of(prepared, at_most_s)

    def scenario(self, found: StrategyFound) -> DlrmResolved:
        """The scenario with the strategies and their plan."""
        choice = self._looked[found.settings]
        plan = self._plan(choice)
        if isinstance(plan, str):
            raise InfeasibleError(plan)
        with_dense = self._with(choice)
        written = read_plan(plan_to_dict(plan)).model_dump(mode="json")
        section = with_dense.scenario.workload
        sharding = section.sharding.model_copy(update={"planner": None, "plan": written})
        return _in_section(with_dense, {"sharding": sharding})

    def _possible(self) -> Iterator[Classes]:
        """Strategies of the dense layers that machine and model allow; the others are recorded as impossible."""
        for bottom, top in product(all_levels(*self._levels), repeat=2):
            why = self._why_impossible(DenseStrategies(bottom=bottom, top=top))
            if why is None:
                yield bottom, top
            else:
                self.impossible.append(StrategyFound(self.words(DlrmChoice("any", bottom, top)), why=why))

    def _why_impossible(self, dense: DenseStrategies) -> str | None:
        """Reason why the job cannot have these strategies of dense layers."""
        resolved = self.resolved
        if resolved.model.hstu is not None and not dense.plain:
            return UNDIVIDED_STACK
        placement = resolved.scenario.placement
        refused = why_undivided(dense, resolved.cluster, resolved.framework, placement, resolved.world_size)
        if refused is not None:
            return refused[1]
        try:
            layer_parts(dense_part(resolved.model, self._job.tables), replace(self._job.settings, dense=dense))
        except InputError as error:
            return error.message
        return None

    @property
    def _levels(self) -> tuple[int, int]:
        """Number of ranks of a node, and number of nodes."""
        local = min(self.resolved.cluster.node.ranks, self.resolved.world_size)
        return local, self.resolved.world_size // local

    def _beside_bytes(self, classes: Classes) -> float:
        """Device memory that tables cannot use, bytes."""
        settings = replace(self._job.settings, dense=DenseStrategies(bottom=classes[0], top=classes[1]))
        return bytes_beside_tables(self.resolved.model, self._job.tables, settings)

    def _plan(self, choice: DlrmChoice) -> Plan | str:
        """The plan of a choice, or the reason why no plan exists."""
        bottom, top = (choice.bottom, choice.top) if choice.apart else self._roomiest
        key = DlrmChoice(choice.tables, bottom, top)
        if key not in self._plans:
            resolved = self._with(key)
            job = PlanningJob(resolved, settings_of(resolved), self._machine)
            try:
                self._plans[key] = plan_of(job, advise=False) if choice.tables == OWN else job.make(choice.tables)
            except (InfeasibleError, ContradictionError) as error:
                why = error.message if isinstance(error, ContradictionError) else str(error).splitlines()[0]
                self._plans[key] = why.removeprefix(f"{resolved.name} does not fit: ")
        return self._plans[key]

    def _workload(self, choice: DlrmChoice, plan: Plan) -> DlrmWorkload:
        return DlrmWorkload(self.resolved.model, plan, settings_of(self._with(choice)))

    def _with(self, choice: DlrmChoice) -> DlrmResolved:
        """The scenario with the dense layers and the planner of a choice."""
        given = self.resolved.scenario.workload
        dense = None if choice.dense.plain and given.dense is None else choice.dense
        sharding = given.sharding
        if choice.tables not in (OWN, sharding.planner):
            sharding = sharding.model_copy(update={"planner": choice.tables, "plan": None})
        return _in_section(self.resolved, {"dense": dense, "sharding": sharding})

    def _settings(self, choice: DlrmChoice) -> tuple[str, ...]:
        """``KEY=VALUE`` settings that differ from the scenario's; remembers the choice of the settings."""
        found = [] if choice.tables == self.own.tables else [f"workload.sharding.planner={choice.tables}"]
        for key in ("bottom", "top"):
            chosen, has = getattr(choice, key), getattr(self.own, key)
            differ = [level for level in LevelStrategies.model_fields if getattr(chosen, level) != getattr(has, level)]
            found += [f"workload.dense.{key}.{level}={getattr(chosen, level)}" for level in differ]
        self._looked[tuple(found)] = choice
        return tuple(found)


def _in_section(resolved: DlrmResolved, update: Mapping[str, Any]) -> DlrmResolved:
    """The scenario with fields of its section ``workload`` replaced."""
    section = resolved.scenario.workload.model_copy(update=update)
    return replace(resolved, scenario=resolved.scenario.model_copy(update={"workload": section}))
