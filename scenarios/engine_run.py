"""Engine runs of a scenario, and the time of an iteration under any plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

from scenarios.bursts import longest_period_s, steady_rule
from scenarios.resolved import ResolvedScenario
from scenarios.schedules import transformed
from simulator.alone import alone_s
from simulator.analysis import iteration_time
from simulator.counted_run import counted_run
from simulator.engine import RunOptions
from simulator.lowered import PS_PER_S, LoweredProgram
from simulator.lowering import Machine, Variation, lower
from simulator.program import TaskGraph
from workloads.family import Workload


def run_options(resolved: ResolvedScenario, machine: Machine, graph: TaskGraph, keep_last: int) -> RunOptions:
    """Number of iterations as the scenario says; the last ``keep_last`` are recorded."""
    choice = resolved.scenario.run
    if choice.iterations == "auto":
        rule = steady_rule(resolved, machine, graph)
        return RunOptions(max_iterations=choice.max_iterations, stop=rule, keep_last=keep_last)
    return RunOptions(max_iterations=choice.iterations, keep_last=keep_last)


def variation_of(resolved: ResolvedScenario) -> Variation:
    """Jitter and stragglers."""
    return Variation(**resolved.scenario.variation.model_dump())


def iteration_s(resolved: ResolvedScenario, workload: Workload, machine: Machine, at_most_s: float = inf) -> float:
    """``iteration_time_s`` of a run of the scenario with this workload: lowered and simulated, not analysed.

    Args:
        workload: the job, with any plan.
        machine: the models.
        at_most_s: the run is given up, and takes infinitely long, once `GIVE_UP_ITERATIONS` in succession took longer
            by `GIVE_UP_SHARE`; never where iterations vary (jitter, bag lengths, bursts of other jobs).

    Raises:
        InputError: the models refuse the scenario.
    """
    graph, _ = transformed(resolved, workload.graph(), machine)
    program = lower(graph, machine, variation=variation_of(resolved)).program
    options = run_options(resolved, machine, graph, keep_last=1)
    rule = GiveUp.of(options, program, machine, at_most_s)
    ends_ps = counted_run(program, replace(options, stop=rule)).iteration_end_ps.tolist()
    return inf if rule.slow(ends_ps) else iteration_time(ends_ps, steady_rule(resolved, machine, graph)).seconds


def iteration_alone_s(resolved: ResolvedScenario, workload: Workload, machine: Machine) -> float:
    """Estimate of `iteration_s` that costs as much for any placement, see `simulator.alone`.

    Raises:
        InputError: the models refuse the scenario.
    """
    graph, _ = transformed(resolved, workload.graph(), machine)
    return alone_s(lower(graph, machine).program)


GIVE_UP_ITERATIONS, GIVE_UP_SHARE = 2, 0.01
"""A search compares thousands of plans, most of which are slower from the second iteration on."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The scenario's rule for the end of a run, or that it is too slow."""

    stop: Callable[[Sequence[int]], bool] | None
    at_most_s: float
    iterations: int

    @staticmethod
    def of(options: RunOptions, program: LoweredProgram, machine: Machine, at_most_s: float) -> GiveUp:
        """Rule that stops a slow run, see `iteration_s`."""
        varies = program.varies or longest_period_s(machine) > 0.0
        return GiveUp(options.stop, inf if varies else at_most_s, GIVE_UP_ITERATIONS)

    def __call__(self, iteration_end_ps: Sequence[int]) -> bool:
        """Whether the run may end."""
        return self.slow(iteration_end_ps) or (self.stop is not None and self.stop(iteration_end_ps))

    def slow(self, iteration_end_ps: Sequence[int]) -> bool:
        """Whether the last iterations took too long; the first one, which fills the pipeline, never counts."""
        if len(iteration_end_ps) <= self.iterations:
            return False
        ends = [int(end) for end in iteration_end_ps[-self.iterations - 1 :]]
        limit_ps = self.at_most_s * (1.0 + GIVE_UP_SHARE) * PS_PER_S
        return all(after - before > limit_ps for before, after in pairwise(ends))
