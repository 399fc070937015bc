"""Everything before the engine: machine, placement, memory, task graph."""

from __future__ import annotations

from dataclasses import dataclass

from inputs.errors import InfeasibleError
from scenarios.capacity import MemoryReport, capacities_bytes
from scenarios.estimate import RunSize, run_size
from scenarios.family import PlacedJob, family_of
from scenarios.located import located
from scenarios.machine import machine_like, machine_of
from scenarios.progress import Progress
from scenarios.resolved import ResolvedScenario
from scenarios.schedules import transformed
from simulator.equality import same
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


def prepare(resolved: ResolvedScenario, progress: Progress, before: Prepared | None = None) -> Prepared:
    """Place the job, check that it fits, and generate the task graph.

    Args:
        before: a job prepared before; its machine, plan and task graph are used again if they are the same.

    Raises:
        InputError: a model, generator or planner refuses the scenario; the error names its line.
        InfeasibleError: the job does not fit into the memory of the GPUs; with the numbers of each tier.
    """
    with located(resolved.document):
        machine = machine_of(resolved) if before is None else machine_like(before.machine, before.resolved, resolved)
        if before is None or machine is not before.machine:
            return generated(resolved, machine, *place(resolved, machine, progress), progress)
        return generated(resolved, machine, *_placed_again(resolved, before, progress), progress, before)


def generated(
    resolved: ResolvedScenario,
    machine: Machine,
    job: PlacedJob,
    memory: MemoryReport,
    progress: Progress,
    before: Prepared | None = None,
) -> Prepared:
    """A placed job with its task graph; the graph of ``before`` is used again if both are the same."""
    transform = resolved.scenario.transform
    known = before is not None and before.machine is machine and before.resolved.scenario.transform == transform
    if before is not None and known and same(before.job.workload, job.workload):
        return Prepared(resolved, machine, job, memory, before.graph, before.applied)
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
    return job, memory_of(resolved, job)


def _placed_again(resolved: ResolvedScenario, before: Prepared, progress: Progress) -> tuple[PlacedJob, MemoryReport]:
    """A job on the machine of a job prepared before, and the memory that it needs; raises as `place`."""
    if before.resolved.kind != resolved.kind:
        return place(resolved, before.machine, progress)
    try:
        job = before.job.changed(resolved, before.machine, place_again=True)
        return job, memory_of(resolved, job)
    except InfeasibleError:  # placing it says how the job would fit
        return place(resolved, before.machine, progress)


def memory_of(resolved: ResolvedScenario, job: PlacedJob) -> MemoryReport:
    """Memory of a placed job.

    Raises:
        InfeasibleError: the job does not fit; with the numbers of each tier.
    """
    memory = MemoryReport(job.workload.memory(), capacities_bytes(resolved.cluster, resolved.world_size))
    if not memory.fits:
        why = "a rank needs more memory than it has"
        raise InfeasibleError(f"{resolved.name} does not fit: {why}\n{memory.in_words()}")
    return memory


def size_of(prepared: Prepared, placing_s: float = 0.0) -> RunSize:
    """Size of the run of a prepared job; ``placing_s``: processor time that placing it took."""
    return run_size(prepared.resolved, prepared.graph, inputs_vary=prepared.job.varies, placing_s=placing_s)
