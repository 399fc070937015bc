"""Everything before the engine: settings, machine, sharding plan, memory, task graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from scenarios.capacity import MemoryReport
from scenarios.estimate import run_size
from scenarios.job import machine_of, settings_of
from scenarios.located import located
from scenarios.plans import make_fitting_plan
from scenarios.progress import Progress
from scenarios.resolve import ResolvedScenario
from simulator.lowering import Machine
from simulator.program import TaskGraph
from workloads.dlrm.family import DlrmWorkload
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.sharding.plan import Plan
from workloads.dlrm.sharding.plan_exchange import plan_to_dict
from workloads.dlrm.sharding.plan_file import read_plan


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job ready to be lowered.

    Attributes:
        machine: the models of the placed cluster.
        workload: the job on its ranks; plan and settings are the DLRM's own.
        memory: memory use of each rank against its capacity.
        graph: the task graph of one iteration.
    """

    resolved: ResolvedScenario
    machine: Machine
    workload: DlrmWorkload
    memory: MemoryReport
    graph: TaskGraph

    @property
    def settings(self) -> DlrmSettings:
        """Ranks, batch, precisions, as the generator takes them."""
        return self.workload.settings

    @property
    def plan(self) -> Plan:
        """Placement of all parts of tables."""
        return self.workload.plan


def prepare(resolved: ResolvedScenario, progress: Progress) -> Prepared:
    """Plan the sharding, check that it fits, and generate the task graph.

    Raises:
        InputError: a model, generator or planner refuses the scenario; the error names its line.
        InfeasibleError: the job does not fit into the memory of the GPUs; with the numbers of each tier.
    """
    with located(resolved.document):
        machine = machine_of(resolved)
        progress.stage("planning the sharding")
        workload, memory = make_fitting_plan(resolved, settings_of(resolved), machine)
        progress.stage("generating the task graph")
        graph = workload.graph()
    return Prepared(resolved, machine, workload, memory, graph)


def size_of(prepared: Prepared) -> dict[str, Any]:
    """Size of the run of a prepared job: the keys of `scenarios.estimate.run_size`."""
    return run_size(prepared.resolved, prepared.graph, lengths_vary=bool(prepared.plan.tables.pooling))


def with_plan(resolved: ResolvedScenario, progress: Progress) -> ResolvedScenario:
    """The scenario with the plan that `prepare` makes written out; raises as `prepare`."""
    plan = read_plan(plan_to_dict(prepare(resolved, progress).plan)).model_dump(mode="json")
    sharding = resolved.scenario.workload.sharding.model_copy(update={"planner": None, "plan": plan})
    workload = resolved.scenario.workload.model_copy(update={"sharding": sharding})
    return replace(resolved, scenario=resolved.scenario.model_copy(update={"workload": workload}))
