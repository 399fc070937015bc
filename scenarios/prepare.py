"""Everything before the engine: machine, placement, memory, task graph."""

from __future__ import annotations

from dataclasses import dataclass

from inputs.errors import InfeasibleError
from scenarios.capacity import MemoryReport, capacities_bytes
from scenarios.estimate import RunSize, run_size
from scenarios.family import PlacedJob, family_of
from scenarios.located import located
from scenarios.machine import machine_of
from scenarios.progress import Progress
from scenarios.resolved import ResolvedScenario
from scenarios.schedules import transformed
from simulator.lowering import Machine
from simulator.program import TaskGraph
from simulator.transform.sequence import Applied
from workloads.family import Workload


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job ready to be lowered.

    Attributes:
        machine: the models of the placed cluster.
        job: the job on its ranks, as its family sees it.
        memory: memory use of each rank against its capacity.
        graph: the task graph of one iteration, after all transformations.
        applied: the transformations with their changes.
    """

    resolved: ResolvedScenario
    machine: Machine
    job: PlacedJob
    memory: MemoryReport
    graph: TaskGraph
    applied: tuple[Applied, ...] = ()

    @property
    def workload(self) -> Workload:
        """The job on its ranks, as all families have it."""
        return self.job.workload


def prepare(resolved: ResolvedScenario, progress: Progress) -> Prepared:
    """Place the job, check that it fits, and generate the task graph.

    Raises:
        InputError: a model, generator or planner refuses the scenario; the error names its line.
        InfeasibleError: the job does not fit into the memory of the GPUs; with the numbers of each tier.
    """
    with located(resolved.document):
        machine = machine_of(resolved)
        job, memory = place(resolved, machine, progress)
        progress.stage("generating the task graph")
        graph, changes = transformed(resolved, job.workload.graph(), machine)
    return Prepared(resolved, machine, job, memory, graph, changes)


def place(resolved: ResolvedScenario, machine: Machine, progress: Progress) -> tuple[PlacedJob, MemoryReport]:
    """A job on its ranks, and the memory that it needs.

    Raises:
        InputError: the family refuses the scenario.
        InfeasibleError: the job does not fit; with the numbers of each tier.
    """
    job: PlacedJob = family_of(resolved).place(resolved, machine, progress)
    memory = MemoryReport(job.workload.memory(), capacities_bytes(resolved.cluster, resolved.world_size))
    if not memory.fits:
        why = "a rank needs more memory than it has"
        raise InfeasibleError(f"{resolved.name} does not fit: {why}\n{memory.in_words()}")
    return job, memory


def size_of(prepared: Prepared) -> RunSize:
    """Size of the run of a prepared job."""
    return run_size(prepared.resolved, prepared.graph, inputs_vary=prepared.job.varies)
