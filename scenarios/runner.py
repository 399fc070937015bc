"""Running a resolved scenario: plan, generate, lower, run, analyse, find the bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from scenarios.bursts import background_warnings, steady_rule
from scenarios.engine_run import GiveUp, run_options, variation_of
from scenarios.estimate import require_memory
from scenarios.levers import Levers, find_levers
from scenarios.located import located
from scenarios.prepare import Prepared, prepare, size_of
from scenarios.probe import Probe
from scenarios.progress import Progress
from scenarios.resolved import ResolvedScenario
from scenarios.schedules import schedule_notes
from scenarios.summary import summary_of
from scenarios.uncertainty.assumptions import assumption_warnings
from scenarios.uncertainty.interval import Interval
from scenarios.uncertainty.jobs import interval_of_run
from scenarios.uncertainty.vendors import unmeasured_warning
from simulator.analysis import BOUND_RUNS, Analysis, Bound, analyse, find_bound, path_shares
from simulator.counted_run import counted_run
from simulator.engine import EngineRun, ProgramMemory
from simulator.lowering import Lowerer, Lowering
from simulator.program import TaskGraph


@dataclass(frozen=True, slots=True)
class Reusable:
    """Parts of a run that another run may take over.

    Attributes:
        prepared: plan, machine, memory and task graph.
        lowerer: lowers the task graph again for re-runs.
        memory: units and usage that re-runs share with the run.
    """

    prepared: Prepared
    lowerer: Lowerer
    memory: ProgramMemory

    @property
    def reusable(self) -> Reusable:
        """These parts alone."""
        return Reusable(self.prepared, self.lowerer, self.memory)

    @property
    def resolved(self) -> ResolvedScenario:
        """The scenario."""
        return self.prepared.resolved


@dataclass(frozen=True, slots=True)
class Simulation(Reusable):
    """A run, without a search for its bound.

    Attributes:
        lowering: durations, activities and collectives.
        result: times of the run.
        analysis: iteration time, breakdown, collectives, critical path.
        warnings: limits of the trust in the results, one text each.
    """

    lowering: Lowering
    result: EngineRun
    analysis: Analysis
    warnings: tuple[str, ...]

    @property
    def graph(self) -> TaskGraph:
        """The task graph of one iteration."""
        return self.prepared.graph


@dataclass(frozen=True, slots=True)
class Outcome(Simulation):
    """Results of a run.

    Attributes:
        bound: the bound of the iteration.
        interval: p10 and p90 of the iteration time, and the constants that widen it.
        levers: settings that were tried; None without a search for them.
        summary: the content of ``summary.json``.
    """

    bound: Bound
    interval: Interval
    levers: Levers | None
    summary: dict[str, Any]


def simulate(
    resolved: ResolvedScenario, progress: Progress, *, levers: bool = False, before: Reusable | None = None
) -> Outcome:
    """Run a scenario and find its bound; with ``levers``, also try changed settings; otherwise as `simulation_of`."""
    done = simulation_of(resolved, progress, before)
    prepared, lowering, analysis = done.prepared, done.lowering, done.analysis
    probe = Probe.of(prepared, done.lowerer, variation_of(resolved), done.result, analysis.iteration, done.memory)
    bound = _bound(probe, analysis, progress)
    tried = find_levers(probe, bound, progress) if levers else None
    interval = interval_of_run(prepared, lowering, analysis, bound)
    unmeasured = unmeasured_warning(resolved.cluster.node.gpu)
    warnings = (*done.warnings, *unmeasured, *assumption_warnings(bound, interval))
    summary = summary_of(prepared, analysis, bound, interval, tried, warnings)
    return Outcome(
        prepared, done.lowerer, done.memory, lowering, done.result, analysis, warnings, bound, interval, tried, summary
    )


def simulation_of(resolved: ResolvedScenario, progress: Progress, before: Reusable | None = None) -> Simulation:
    """Run a scenario.

    Args:
        before: another run; its machine, plan, task graph and lowering are used again if they are the same.

    Raises:
        InputError: a model, generator or planner refuses the scenario.
        InfeasibleError: the job does not fit into the memory of the GPUs, or the run into this machine's.
    """
    known = None if before is None else before.prepared
    return simulation_of_prepared(prepare(resolved, progress, known), progress, before=before)


class GivenUpError(Exception):
    """Iterations of a run take longer than the limit."""


def simulation_of_prepared(
    prepared: Prepared, progress: Progress, at_most_s: float = inf, before: Reusable | None = None
) -> Simulation:
    """Run a prepared job.

    Args:
        at_most_s: see `scenarios.engine_run.iteration_s`.
        before: see `simulation_of`.

    Raises:
        InputError: the models refuse the scenario.
        InfeasibleError: the run does not fit into this machine's memory.
        GivenUpError: iterations take longer than ``at_most_s``.
    """
    resolved = prepared.resolved
    require_memory(size_of(prepared))
    progress.stage("lowering")
    with located(resolved.document):
        parts = (prepared.graph, prepared.machine, variation_of(resolved))
        known = before is not None and before.lowerer.is_of(*parts)
        lowerer = before.lowerer if before is not None and known else Lowerer(*parts)
        lowering = lowerer.lower()
    progress.stage("simulating")
    keep = resolved.scenario.output.record.iterations
    memory = ProgramMemory() if before is None else before.memory
    options = replace(run_options(resolved, prepared.machine, prepared.graph, keep), memory=memory)
    give_up = GiveUp.of(options, lowering.program, prepared.machine, at_most_s)
    result = counted_run(lowering.program, options if at_most_s == inf else replace(options, stop=give_up))
    if give_up.slow(result.iteration_end_ps.tolist()):
        raise GivenUpError
    progress.stage("analysing")
    algorithms = {info.task: info.algorithm for info in lowering.collectives}
    rule = steady_rule(resolved, prepared.machine, prepared.graph)
    roles = resolved.scenario.workload.roles(resolved.world_size)
    analysis = analyse(prepared.graph, lowering.program, result, algorithms=algorithms, rule=rule, roles=roles)
    return Simulation(prepared, lowerer, memory, lowering, result, analysis, _warnings(prepared, lowering, analysis))


def _bound(probe: Probe, analysis: Analysis, progress: Progress) -> Bound:
    """The bound of a run, by re-runs with each class improved."""
    done, base_s = 0, 0.0

    def seconds(improve: Mapping[str, float]) -> float:
        nonlocal done, base_s
        done += 1
        progress.stage("looking for the bound", done, BOUND_RUNS)
        if not improve:
            base_s = probe.base_s()
            return base_s
        return probe.seconds(probe.lowerer.lower(improve), base_s)

    on_cpus = probe.prepared.resolved.cluster.node.gpu is None
    absent = ["site"] if probe.prepared.machine.topology.site_of is None else []
    absent += [] if probe.prepared.memory.use.total("ssd").any() else ["SSD"]
    return find_bound(seconds, path_shares(analysis.critical_path), on_cpus=on_cpus, absent=absent)


def _warnings(prepared: Prepared, lowering: Lowering, analysis: Analysis) -> tuple[str, ...]:
    """Warnings that limit the trust in the results."""
    found = [
        *prepared.resolved.notes,
        *background_warnings(prepared.machine, analysis.iteration),
        *map(str, lowering.warnings),
    ]
    if not analysis.iteration.steady:
        found.insert(0, f"the run had not settled after {analysis.iteration.iterations} iterations")
    return (*prepared.job.warnings(), *schedule_notes(prepared.workload, prepared.applied), *found)
