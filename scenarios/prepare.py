"""Everything before the engine: settings, machine, sharding plan, memory, task graph."""

from __future__ import annotations

from dataclasses import dataclass

from scenarios.capacity import MemoryReport
from scenarios.located import located
from scenarios.plans import make_fitting_plan
from scenarios.progress import Progress
from scenarios.resolve import ResolvedScenario
from scenarios.types import Bursts
from simulator.lowering import Machine, build_machine
from simulator.network.background import OtherJob
from simulator.program import TaskGraph
from workloads.dlrm import generate
from workloads.plan import Plan
from workloads.reuse import load_reuse
from workloads.settings import DlrmSettings, Optimizers, Precisions


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job ready to be lowered.

    Attributes:
        resolved: the scenario.
        settings: ranks, batch, precisions, as the generator takes them.
        machine: the models of the placed cluster.
        plan: who holds which part of which table.
        memory: what each rank holds against what it may.
        graph: the task graph of one iteration.
    """

    resolved: ResolvedScenario
    settings: DlrmSettings
    machine: Machine
    plan: Plan
    memory: MemoryReport
    graph: TaskGraph


def prepare(resolved: ResolvedScenario, progress: Progress) -> Prepared:
    """Plan the sharding, check that it fits, and generate the task graph.

    Raises:
        InputError: a model, generator or planner refuses the scenario; told at its line.
        InfeasibleError: the job does not fit into the memory of the GPUs; with the numbers of each tier.
    """
    with located(resolved.document):
        settings = _settings(resolved)
        machine = _machine(resolved)
        progress.stage("planning the sharding")
        plan, memory = make_fitting_plan(resolved, settings, machine)
        progress.stage("generating the task graph")
        graph = generate(resolved.model, plan, settings)
    return Prepared(resolved, settings, machine, plan, memory, graph)


def _settings(resolved: ResolvedScenario) -> DlrmSettings:
    workload, precision = resolved.scenario.workload, resolved.scenario.precision
    return DlrmSettings(
        world_size=resolved.world_size,
        local_world_size=min(resolved.cluster.node.ranks, resolved.world_size),
        global_batch_size=resolved.global_batch_size,
        framework=resolved.framework,
        precision=Precisions(**precision.model_dump()),
        optimizer=Optimizers(**workload.optimizer.model_dump()),
        pipeline=workload.pipeline,
        reuse=load_reuse(resolved.model.index_reuse.value),
    )


def _machine(resolved: ResolvedScenario) -> Machine:
    return build_machine(
        resolved.cluster,
        resolved.world_size,
        launch_s=resolved.framework.launch_s.value,
        placement=resolved.scenario.placement,
        seed=resolved.scenario.variation.seed,
        algorithms={str(op): name for op, name in resolved.scenario.network.algorithms.items()},
        background={name: _other_job(load) for name, load in resolved.scenario.network.background.items()},
    )


def _other_job(load: float | Bursts) -> OtherJob:
    if isinstance(load, Bursts):
        return OtherJob(load.share, load.on, load.off, load.phase)
    return OtherJob(load)
