"""Everything before the engine: settings, machine, sharding plan, memory, task graph."""

from __future__ import annotations

from dataclasses import dataclass

from scenarios.capacity import MemoryReport
from scenarios.job import machine_of, settings_of
from scenarios.located import located
from scenarios.plans import make_fitting_plan
from scenarios.progress import Progress
from scenarios.resolve import ResolvedScenario
from simulator.lowering import Machine
from simulator.program import TaskGraph
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.sharding.plan import Plan


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job ready to be lowered.

    Attributes:
        settings: ranks, batch, precisions, as the generator takes them.
        machine: the models of the placed cluster.
        plan: placement of all parts of tables.
        memory: memory use of each rank against its capacity.
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
        InputError: a model, generator or planner refuses the scenario; the error names its line.
        InfeasibleError: the job does not fit into the memory of the GPUs; with the numbers of each tier.
    """
    with located(resolved.document):
        settings = settings_of(resolved)
        machine = machine_of(resolved)
        progress.stage("planning the sharding")
        plan, memory = make_fitting_plan(resolved, settings, machine)
        progress.stage("generating the task graph")
        graph = generate(resolved.model, plan, settings)
    return Prepared(resolved, settings, machine, plan, memory, graph)
