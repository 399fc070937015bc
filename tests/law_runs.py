"""Iteration times for the laws: a scenario without its search for the bound, with a plan that stays."""

from __future__ import annotations

from functools import cache

from scenarios.engine_run import run_options, variation_of
from scenarios.prepare import prepare, with_plan
from scenarios.progress import Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from simulator.analysis import iteration_time
from simulator.engine import run
from simulator.lowering import lower


def iteration_s(resolved: ResolvedScenario) -> float:
    """Seconds of an iteration."""
    prepared = prepare(resolved, Silent())
    lowering = lower(prepared.graph, prepared.machine, variation=variation_of(resolved))
    result = run(lowering.program, run_options(resolved, prepared.machine, 2))
    return iteration_time(result.iteration_end_ps.tolist()).seconds


@cache
def planned(name: str, *settings: str) -> ResolvedScenario:
    """A scenario with its plan written out, so that an edit of the machine does not change the plan."""
    return with_plan(load_scenario(name, settings), Silent())
