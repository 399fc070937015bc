"""The family of DLRMs behind the interface of `scenarios.family`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from inputs.keys import KeyPath
from scenarios.dlrm import placed
from scenarios.dlrm.expected import expected
from scenarios.dlrm.models import DlrmModels
from scenarios.dlrm.resolving import PLAN, PLANNER, fill
from scenarios.dlrm.section import DlrmScenario
from scenarios.dlrm.typed import DlrmResolved
from scenarios.family import FAMILIES, Asked, Expected, Filled, template_of
from scenarios.mapping import Keep
from scenarios.progress import Progress
from simulator.lowering import Machine
from workloads.dlrm.model.model import DlrmModel
from workloads.graph.schedule import SCHEDULES

if TYPE_CHECKING:  # searches, which few commands need
    from scenarios.dlrm.plan_study import DlrmPlanStudy
    from scenarios.strategies import StrategyStudy

Pair: TypeAlias = tuple[KeyPath, KeyPath]


@dataclass(frozen=True, slots=True)
class DlrmPlanning:
    """Sharding plans, for ``dlrmsim plan``."""

    def settings(self, planner: str) -> Sequence[str]:
        """The setting that chooses a planner."""
        return (f"workload.sharding.planner={planner}",)

    def study(self, resolved: DlrmResolved, progress: Progress, *, compare: bool, keep: Keep) -> DlrmPlanStudy:
        """See `scenarios.dlrm.plan_study.study_plan`."""
        from scenarios.dlrm.plan_study import study_plan

        return study_plan(resolved, progress, compare=compare, keep=keep)

    def strategies(self, resolved: DlrmResolved, progress: Progress, *, compare: bool, keep: Keep) -> StrategyStudy:
        """See `scenarios.dlrm.strategies`.

        Raises:
            InputError: the model has sequences, whose layers have no strategies.
        """
        if resolved.model.hstu is not None:
            raise resolved.document.error(
                ("workload", "model"),
                "layers over sequences are data-parallel alone",
                given=resolved.model.name,
                expected="a model without sequences, or no --search strategies",
            )
        from scenarios.dlrm.strategies import DlrmStrategies
        from scenarios.strategies import StrategySearch

        return StrategySearch(resolved, DlrmStrategies(resolved), progress, compare, keep).study("samples")


@dataclass(frozen=True, slots=True)
class DlrmFamily(DlrmModels):
    """Deep learning recommendation models; see `scenarios.family.Family` for its members."""

    kind: str = "dlrm"
    unit: str = "samples"
    scenario: type[DlrmScenario] = DlrmScenario
    exclusive: Sequence[Pair] = ((PLAN, PLANNER),)
    refused: Sequence[str] = ()
    planning: DlrmPlanning = DlrmPlanning()

    @property
    def template(self) -> str:
        """Content of ``template.yaml``."""
        return template_of(__package__)

    def fill(self, asked: Asked[DlrmModel, DlrmScenario]) -> Filled[DlrmModel]:
        """See `scenarios.dlrm.resolving.fill`."""
        return fill(asked)

    def expected(self, resolved: DlrmResolved) -> Expected:
        """See `scenarios.dlrm.expected.expected`."""
        return expected(resolved)

    def facts(self, resolved: DlrmResolved) -> Mapping[str, str]:
        """Sharding, placement of ranks, pipeline and number formats."""
        workload, precision = resolved.scenario.workload, resolved.scenario.precision
        return {
            "Sharding": workload.sharding.planner or "by plan",
            **({} if workload.rows_scaling == "none" else {"Rows scaling": workload.rows_scaling}),
            "Placement": resolved.scenario.placement,
            "Pipeline": _pipeline(resolved),
            "Arithmetic": f"dense {precision.dense}, tables {precision.tables}",
            "On the wire": (
                f"all_to_all {precision.forward_all_to_all} forward, {precision.backward_all_to_all} backward; "
                f"all_reduce {precision.all_reduce}"
            ),
        }

    def place(self, resolved: DlrmResolved, machine: Machine, progress: Progress) -> placed.PlacedDlrm:
        """Plan the sharding; see `scenarios.dlrm.placed.place`."""
        progress.stage("planning the sharding")
        return placed.place(resolved, machine)


def _pipeline(resolved: DlrmResolved) -> str:
    """The pipeline, how old the rows are that its lookups see, and the passes of an iteration."""
    workload = resolved.scenario.workload
    pipeline, passes = workload.pipeline or "none", workload.gradient_accumulation
    stale = SCHEDULES[pipeline].staleness
    old = f", lookups {stale} update old" if stale else ""
    return pipeline + old + (f", {passes} passes" if passes > 1 else "")


FAMILIES.add("dlrm", DlrmFamily(), "deep learning recommendation models: embedding tables sharded over the ranks")
