"""Running a resolved scenario: plan, generate, lower, run, analyse, find the bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scenarios.bursts import background_warnings, longest_period_s, steady_rule
from scenarios.engine_run import run_options, variation_of
from scenarios.estimate import require_memory, run_size
from scenarios.located import located
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario
from scenarios.summary import caches_of, job_of, sharding_of, summary_of
from simulator.analysis import Analysis, Bound, IterationTime, SteadyRule, analyse, find_bound, iteration_time
from simulator.engine import RunOptions, RunResult, run
from simulator.lowered import PS_PER_S
from simulator.lowering import BOUND_CLASSES, Lowering, Variation, lower
from simulator.program import TaskGraph

EXACT = 1e-6
"""Relative difference of iterations that repeat exactly, but for integers of picoseconds."""
PROBE_RULE = SteadyRule(window=1, tolerance=EXACT)
"""Rule that ends a re-run in search of the bound: settled iterations repeat exactly, so two equal ones suffice."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of a run.

    Attributes:
        prepared: plan, machine, memory and task graph.
        lowering: durations, activities and collectives.
        result: times of the run.
        analysis: iteration time, breakdown, collectives, critical path.
        bound: the bound of the iteration.
        warnings: limits of the trust in the results, one text each.
        summary: the content of ``summary.json``.
    """

    prepared: Prepared
    lowering: Lowering
    result: RunResult
    analysis: Analysis
    bound: Bound
    warnings: tuple[str, ...]
    summary: dict[str, Any]

    @property
    def resolved(self) -> ResolvedScenario:
        """The scenario."""
        return self.prepared.resolved

    @property
    def graph(self) -> TaskGraph:
        """The task graph of one iteration."""
        return self.prepared.graph


def simulate(resolved: ResolvedScenario, progress: Progress) -> Outcome:
    """Run a scenario.

    Raises:
        InputError: a model, generator or planner refuses the scenario.
        InfeasibleError: the job does not fit into the memory of the GPUs, or the run into this machine's.
    """
    prepared = prepare(resolved, progress)
    require_memory(run_size(prepared))
    variation = variation_of(resolved)
    progress.stage("lowering")
    with located(resolved.document):
        lowering = lower(prepared.graph, prepared.machine, variation=variation)
    progress.stage("simulating")
    keep = resolved.scenario.output.record.iterations
    result = run(lowering.program, run_options(resolved, prepared.machine, keep))
    progress.stage("analysing")
    algorithms = {info.task: info.algorithm for info in lowering.collectives}
    rule = steady_rule(prepared.machine)
    analysis = analyse(prepared.graph, lowering.program, result, algorithms=algorithms, rule=rule)
    bound = find_bound(_Probe(prepared, lowering, variation, result, analysis.iteration, progress), BOUND_CLASSES)
    warnings = _warnings(prepared, lowering, analysis)
    summary = summary_of(prepared, analysis, bound, warnings)
    return Outcome(prepared, lowering, result, analysis, bound, warnings, summary)


def check(resolved: ResolvedScenario, progress: Progress | None = None) -> dict[str, Any]:
    """Everything but the run: memory per rank and tier, and the size of the run.

    Raises:
        InputError: the scenario is wrong, or a model, generator or planner refuses it.
        InfeasibleError: the job does not fit into the memory of the GPUs, or the run into this machine's.
    """
    prepared = prepare(resolved, progress or Silent())
    size = run_size(prepared)
    require_memory(size)
    return {
        **job_of(resolved),
        "scenario_hash": resolved.hash,
        "memory": prepared.memory.to_dict(),
        "sharding": sharding_of(prepared.plan),
        "caches": caches_of(prepared),
        "size": size,
        "warnings": list(resolved.notes),
    }


@dataclass(slots=True)
class _Probe:
    """Iteration time with some resource classes improved, for `find_bound`.

    Where iterations repeat a re-run ends when two are equal. With jitter, or beside bursts of another job, it has as
    many iterations as the run and is measured over the same ones, whose draws are the same.
    """

    prepared: Prepared
    lowering: Lowering
    variation: Variation
    result: RunResult
    measured: IterationTime
    progress: Progress
    done: int = 0

    def __call__(self, improve: Mapping[str, float]) -> float:
        """Seconds per iteration."""
        self.done += 1
        self.progress.stage("looking for the bound", self.done, len(BOUND_CLASSES) + 1)
        if self._varies and not improve:
            return self._over_measured(self.result)
        result = run(self._lowering(improve).program, self._options())
        if self._varies:
            return self._over_measured(result)
        return iteration_time(result.iteration_end_ps.tolist(), PROBE_RULE).seconds

    def _lowering(self, improve: Mapping[str, float]) -> Lowering:
        if not improve:
            return self.lowering
        return lower(self.prepared.graph, self.prepared.machine, variation=self.variation, improve=improve)

    @property
    def _varies(self) -> bool:
        return self.lowering.program.varies or longest_period_s(self.prepared.machine) > 0.0

    def _options(self) -> RunOptions:
        stop = None if self._varies else PROBE_RULE
        return RunOptions(max_iterations=self.measured.iterations, stop=stop, keep_last=1)

    def _over_measured(self, result: RunResult) -> float:
        """Mean over the iterations that the run's own time is the mean of."""
        ends = [0, *result.iteration_end_ps.tolist()]
        count = self.measured.measured_iterations
        return float(ends[-1] - ends[-1 - count]) / count / PS_PER_S


def _warnings(prepared: Prepared, lowering: Lowering, analysis: Analysis) -> tuple[str, ...]:
    """Warnings that limit the trust in the results."""
    found = [
        *prepared.resolved.notes,
        *background_warnings(prepared.machine, analysis.iteration),
        *map(str, lowering.warnings),
    ]
    if not analysis.iteration.steady:
        found.insert(0, f"the run had not settled after {analysis.iteration.iterations} iterations")
    if prepared.plan.rows_scale < 1:
        found.insert(0, f"the rows of all tables were scaled by {prepared.plan.rows_scale:.4f} to fit (rows_scaling)")
    return tuple(found)
