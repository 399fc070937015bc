"""How a scenario asks the engine to run, and the time of an iteration under any plan."""

from __future__ import annotations

from scenarios.resolve import ResolvedScenario
from simulator.analysis import SteadyRule, iteration_time
from simulator.engine import RunOptions, run
from simulator.lowering import Machine, Variation, lower
from workloads.dlrm import generate
from workloads.plan import Plan
from workloads.settings import DlrmSettings


def run_options(resolved: ResolvedScenario, keep_last: int) -> RunOptions:
    """Number of iterations as the scenario says; the last ``keep_last`` are recorded."""
    choice = resolved.scenario.run
    if choice.iterations == "auto":
        return RunOptions(max_iterations=choice.max_iterations, stop=SteadyRule(), keep_last=keep_last)
    return RunOptions(max_iterations=choice.iterations, keep_last=keep_last)


def variation_of(resolved: ResolvedScenario) -> Variation:
    """Jitter and stragglers."""
    return Variation(**resolved.scenario.variation.model_dump())


def iteration_s(resolved: ResolvedScenario, plan: Plan, settings: DlrmSettings, machine: Machine) -> float:
    """``iteration_time_s`` of a run of the scenario with this plan: lowered and simulated, not analysed.

    Raises:
        InputError: the models refuse the scenario.
    """
    lowering = lower(generate(resolved.model, plan, settings), machine, variation=variation_of(resolved))
    result = run(lowering.program, run_options(resolved, keep_last=1))
    return iteration_time(result.iteration_end_ps.tolist()).seconds
