"""The fastest plan found for the blocks of a network, and the plans of the comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from inputs.errors import InputError, nearest_name
from scenarios.convnet.block_search import OF_A_COMPARISON, OF_A_PLAN, SearchLimits
from scenarios.convnet.memory_curve import Moment, memory_curve
from scenarios.convnet.out_of_core import KARMA_SETTING, Baseline, PlanningBlocks, asked_job, section_of
from scenarios.convnet.remedies import refusal
from scenarios.convnet.section import OutOfCoreMode
from scenarios.convnet.settings import ConvnetResolved
from scenarios.located import located
from scenarios.machine import machine_of
from scenarios.mapping import Keep, keep_nothing
from scenarios.progress import Progress
from scenarios.resolve import changed
from scenarios.summary_keys import job_of
from workloads.convnet.block_plan import BlockPlan, BlockPlanFile
from workloads.convnet.out_of_core import OutOfCore

KARMA = "karma"


@dataclass(frozen=True, slots=True)
class PlanCompared:
    """A plan of the comparison.

    Attributes:
        name: a `Baseline`, ``karma``, or ``plan`` for the scenario's own.
        job: the scenario's job under the plan.
        lacking_bytes: largest missing memory of a tier; 0: the plan fits.
        iteration_time_s: iteration time of a run; None: the plan does not fit.
    """

    name: str
    job: OutOfCore
    lacking_bytes: float
    iteration_time_s: float | None = None

    @property
    def plan(self) -> BlockPlan:
        """Blocks and decisions."""
        return self.job.plan

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without the blocks."""
        found = {key: value for key, value in section_of(self.job).items() if key != "blocks"}
        return {
            "name": self.name,
            "iteration_time_s": self.iteration_time_s,
            "lacking_bytes": self.lacking_bytes,
            **found,
        }


@dataclass(frozen=True, slots=True)
class ConvnetPlanStudy:
    """A plan for the blocks of a network.

    Attributes:
        resolved: the scenario with the plan.
        best: the scenario's own plan, or the fastest plan found.
        compared: plans with one decision for all blocks, and the best plan.
        block_times_s: times of forward pass, backward pass and one copy of each block of the plan, seconds.
        curve: device memory of blocks over an iteration with the plan.
        estimated: number of plans that the search estimated.
        simulated: number of simulated plans.
    """

    resolved: ConvnetResolved
    best: PlanCompared
    compared: tuple[PlanCompared, ...]
    block_times_s: tuple[tuple[float, float, float], ...]
    curve: tuple[Moment, ...]
    estimated: int
    simulated: int

    def plan_file(self) -> Mapping[str, Any]:
        """The scenario with the plan, as input of `dlrmsim run`."""
        return self.resolved.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """The results as JSON, without the scenario."""
        return {
            **job_of(self.resolved),
            "scenario_hash": self.resolved.hash,
            "iteration_time_s": self.best.iteration_time_s,
            "out_of_core": section_of(self.best.job),
            "search": {"estimated": self.estimated, "simulated": self.simulated},
            "compared": [found.to_dict() for found in self.compared],
        }


@dataclass(frozen=True, slots=True)
class ConvnetPlanning:
    """Plans for blocks, for ``dlrmsim plan``."""

    def settings(self, planner: str) -> Sequence[str]:
        """The setting that selects a plan.

        Raises:
            InputError: no plan has this name.
        """
        known = get_args(OutOfCoreMode)
        if planner not in known:
            raise InputError(
                "no such plan of blocks",
                file="--planner",
                given=planner,
                expected=f"one of {', '.join(known)}",
                nearest=nearest_name(planner, known),
            )
        return (f"workload.out_of_core={planner}",)

    def study(self, resolved: ConvnetResolved, progress: Progress, *, compare: bool, keep: Keep) -> ConvnetPlanStudy:
        """See `study_blocks`."""
        return study_blocks(resolved, progress, compare=compare, keep=keep)


def study_blocks(
    resolved: ConvnetResolved, progress: Progress, *, compare: bool = False, keep: Keep = keep_nothing
) -> ConvnetPlanStudy:
    """Plan the blocks of a network as its scenario asks, or by search, and compare with one decision for all.

    Args:
        compare: whether to simulate more plans of the search.
        keep: storage of the results of each simulation.

    Raises:
        InputError: the scenario is wrong, or its strategy has no plans of blocks.
        InfeasibleError: no plan fits; with the numbers of the plan that is nearest to fitting.
    """
    section = resolved.scenario.workload
    if section.out_of_core is None and section.out_of_core_plan is None:
        resolved = cast("ConvnetResolved", changed(resolved, [KARMA_SETTING]))
    with located(resolved.document):
        study = _Study(resolved, PlanningBlocks(resolved, machine_of(resolved)), progress, keep)
        return study.run(OF_A_COMPARISON if compare else OF_A_PLAN)


@dataclass(slots=True)
class _Study:
    """Simulation of plans one after the other."""

    resolved: ConvnetResolved
    planning: PlanningBlocks
    progress: Progress
    keep: Keep
    simulated: int = 0
    total: int = 0

    def run(self, limits: SearchLimits) -> ConvnetPlanStudy:
        """Simulate baselines and candidates; ``limits``: limits of the search."""
        planning, baselines = self.planning, [(name, self.planning.baseline(name)) for name in get_args(Baseline)]
        searches = self.resolved.scenario.workload.out_of_core == KARMA
        self.progress.stage("planning blocks")
        search = planning.search(limits) if searches else None
        candidates = self._asked() if search is None else search.fastest()
        if not candidates:
            raise refusal(self.resolved, planning.report(planning.least()), self.progress)
        self.total = len(baselines) + len(candidates)
        compared = [self._compared(name, job) for name, job in baselines]
        tried = [self._compared(KARMA if searches else "plan", job) for job in candidates]
        best = min(tried, key=lambda found: found.iteration_time_s or 0.0)
        return ConvnetPlanStudy(
            with_plan(self.resolved, best.plan),
            best,
            (*compared, best),
            tuple(self._block_times(best.job)),
            memory_curve(best.job, planning.machine),
            0 if search is None else search.looked_at,
            self.simulated,
        )

    def _asked(self) -> list[OutOfCore]:
        """The scenario's own plan.

        Raises:
            InfeasibleError: it does not fit.
        """
        job = asked_job(self.resolved, self.planning.machine, self.progress)
        if not self.planning.fits(job):
            raise refusal(self.resolved, self.planning.report(job), self.progress)
        return [job]

    def _compared(self, name: str, job: OutOfCore) -> PlanCompared:
        """The result of a plan, simulated if it fits."""
        lacking = max(self.planning.report(job).worst_excess_bytes, job.schedule.lacking_bytes, 0.0)
        if lacking > 0.0:
            return PlanCompared(name, job, lacking)
        self.simulated += 1
        self.progress.stage("simulating plans of blocks", self.simulated, self.total)
        question = "\n".join(("simulating a plan of blocks", self.resolved.hash, repr(job.plan)))
        return PlanCompared(name, job, 0.0, self.keep(question, lambda: self.planning.simulated_s(job)))

    def _block_times(self, job: OutOfCore) -> Iterator[tuple[float, float, float]]:
        """Times of the passes and copies of a plan's blocks, seconds."""
        times, swaps = self.planning.times, job.decided(["swap"] * len(job.blocks))
        for block in range(len(job.blocks)):
            copied = times.step_s(swaps, ("swap_out", block))
            yield times.step_s(job, ("forward", block)), times.step_s(job, ("backward", block)), copied


def with_plan(resolved: ConvnetResolved, plan: BlockPlan) -> ConvnetResolved:
    """The scenario with the plan itself in place of the keys that ask for one."""
    written = BlockPlanFile.of(plan).model_dump(mode="json")
    update = {"out_of_core": None, "out_of_core_plan": written}
    section = resolved.scenario.workload.model_copy(update=update)
    return replace(resolved, scenario=resolved.scenario.model_copy(update={"workload": section}))
