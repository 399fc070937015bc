"""Training beyond device memory: the plan for the blocks of a scenario's network, given or searched."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

from scenarios.capacity import MemoryReport, capacities_bytes
from scenarios.convnet.block_search import OF_A_RUN, BlockSearch, SearchLimits, StepTimes
from scenarios.convnet.section import ConvnetSection
from scenarios.convnet.settings import ConvnetResolved, memory_of, network_of, settings_of
from scenarios.engine_run import iteration_s
from scenarios.progress import Progress
from simulator.lowering import Machine
from workloads.convnet.block_plan import (
    DECISIONS,
    BlockPlan,
    BlockPlanFile,
    Decision,
    square_root_plan,
    uniform_plan,
)
from workloads.convnet.family import ConvnetWorkload
from workloads.convnet.memory import room_for_blocks
from workloads.convnet.out_of_core import OutOfCore
from workloads.convnet.swap_schedule import BACK, KERNELS, OUT, STREAM_OF

Baseline: TypeAlias = Literal["keep", "swap", "recompute", "checkpoint"]

BASELINES: dict[str, str] = {
    "keep": "everything in device memory",
    "swap": "everything swapped",
    "recompute": "everything recomputed",
    "checkpoint": "everything recomputed in sqrt(n) blocks",
}
"""Descriptions of plans with one decision for all blocks except the last, by name."""

TITLES_OF_DECISIONS: dict[Decision, str] = {
    "keep": "kept",
    "swap": "swapped",
    "recompute": "recomputed",
    "recompute_swapped": "recomputed from a swapped input",
}

KARMA_SETTING, WEIGHTS_SETTING = "workload.out_of_core=karma", "workload.weights=swap"


def leaves_device(section: ConvnetSection) -> bool:
    """Whether a scenario asks for a plan of blocks."""
    return bool(section.out_of_core or section.out_of_core_plan or section.weights == "swap")


@dataclass(slots=True)
class PlanningBlocks:
    """Plans for the blocks of a scenario's network, and simulation of their times.

    Attributes:
        machine: the models of the placed cluster.
    """

    resolved: ConvnetResolved
    machine: Machine

    def job(self, plan: BlockPlan) -> OutOfCore:
        """The scenario's job under a plan.

        Raises:
            InputError: the plan is for another network.
        """
        settings, section = settings_of(self.resolved), self.resolved.scenario.workload
        net, weights = network_of(self.resolved), section.weights or "keep"
        capacity = capacities_bytes(self.resolved.cluster, self.resolved.world_size)["hbm"]
        return OutOfCore.of(net, settings, plan, room_for_blocks(net, settings, weights, capacity), weights)

    def baseline(self, name: Baseline) -> OutOfCore:
        """The job with one decision for all blocks except the last."""
        net = network_of(self.resolved)
        return self.job(square_root_plan(net) if name == "checkpoint" else uniform_plan(net, cast("Decision", name)))

    def report(self, job: OutOfCore) -> MemoryReport:
        """Memory of every rank under a plan."""
        return memory_of(self.resolved, ConvnetWorkload(job.settings, job))

    def fits(self, job: OutOfCore) -> bool:
        """Whether device and host have room for a plan."""
        return job.schedule.lacking_bytes <= 0.0 and self.report(job).fits

    def simulated_s(self, job: OutOfCore) -> float:
        """Iteration time of a run with a plan, seconds."""
        return iteration_s(self.resolved, ConvnetWorkload(job.settings, job), self.machine)

    @property
    def times(self) -> StepTimes:
        """Times of steps."""
        return StepTimes(self.machine.compute)

    def search(self, limits: SearchLimits = OF_A_RUN) -> BlockSearch:
        """A complete search, on the smallest blocks, on half as many blocks, and on the blocks of checkpointing."""
        smallest = self.baseline("keep")
        halved = self.job(uniform_plan(smallest.network, "keep", parts=-(-len(smallest.blocks) // 2)))
        capacity = capacities_bytes(self.resolved.cluster, self.resolved.world_size)["ddr"]
        beside = float(self.report(smallest).use.total("ddr").max()) - smallest.schedule.out_bytes
        found = BlockSearch([smallest, halved, self.baseline("checkpoint")], self.times, capacity - beside, limits)
        found.run()
        return found

    def planned(self, progress: Progress) -> OutOfCore:
        """The fastest plan found; all blocks stay if they fit; `least` if no plan fits."""
        everything = self.baseline("keep")
        if everything.weights == "keep" and self.fits(everything):
            return everything
        progress.stage("planning blocks")
        jobs = self.search().fastest()
        if not jobs:
            return self.least()
        found: list[tuple[float, OutOfCore]] = []
        for job in jobs:
            progress.stage("simulating plans of blocks", len(found) + 1, len(jobs))
            found.append((self.simulated_s(job), job))
        return min(found, key=lambda each: each[0])[1]

    def least(self) -> OutOfCore:
        """The plan with the smallest missing memory, or with the most free memory, among plans with one decision."""
        rest = self.job(uniform_plan(network_of(self.resolved), "recompute_swapped"))
        jobs = [*map(self.baseline, get_args(Baseline)), rest]
        return min(jobs, key=lambda job: self.report(job).worst_excess_bytes)


def asked_job(resolved: ConvnetResolved, machine: Machine, progress: Progress) -> OutOfCore:
    """The plan of a scenario: its own, one decision for all blocks, or the fastest plan of a search.

    The plan may exceed device memory.

    Raises:
        InputError: the scenario's own plan is for another network.
    """
    section, planning = resolved.scenario.workload, PlanningBlocks(resolved, machine)
    if section.out_of_core_plan is not None:
        plan = BlockPlanFile.model_validate(section.out_of_core_plan)
        return planning.job(plan.plan_for(network_of(resolved)))
    if section.out_of_core == "karma":
        return planning.planned(progress)
    mode = section.out_of_core
    return planning.baseline("keep" if mode is None or mode == "none" else mode)


@dataclass(frozen=True, slots=True)
class CopiedBytes:
    """Bytes of copies between a device and its host in an iteration."""

    d2h: float
    h2d: float

    @classmethod
    def of(cls, job: OutOfCore) -> CopiedBytes:
        """Bytes that a plan copies."""
        schedule, streams = job.schedule, {OUT: 0.0, BACK: 0.0, KERNELS: 0.0}
        for step in schedule.steps:
            streams[STREAM_OF[step[0]]] += 0.0 if STREAM_OF[step[0]] == KERNELS else schedule.copied_bytes(step)
        return cls(streams[OUT], streams[BACK])

    @property
    def both(self) -> float:
        """Bytes of both directions together."""
        return self.d2h + self.h2d


def section_of(job: OutOfCore) -> dict[str, Any]:
    """A plan for results: bytes of an iteration, and decisions by block; plain JSON values."""
    return {
        "weights": job.weights,
        "room_bytes": job.room_bytes,
        "peak_bytes": job.schedule.peak_bytes,
        "swapped_bytes": job.schedule.out_bytes,
        "copied_bytes": asdict(CopiedBytes.of(job)),
        "decisions": {name: job.plan.decisions.count(name) for name in DECISIONS},
        "blocks": [
            {"last": block.last, "decision": decision, "input_bytes": sizes.input, "inner_bytes": sizes.inner}
            for block, decision, sizes in zip(job.blocks, job.plan.decisions, job.sizes, strict=True)
        ],
    }
