"""Iteration times for the laws: a scenario without its search for the bound, with a plan that stays."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from scenarios.bursts import longest_period_s
from scenarios.dlrm.written import with_plan
from scenarios.engine_run import run_options, variation_of
from scenarios.prepare import prepare
from scenarios.probe import PROBE_RULE
from scenarios.progress import Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from scenarios.runner import simulation_of
from scenarios.summary import summary_of
from simulator.analysis import iteration_time
from simulator.engine import run
from simulator.lowering import lower


def iteration_s(resolved: ResolvedScenario) -> float:
    """Seconds of an iteration; where all are alike, two equal ones are enough."""
    prepared = prepare(resolved, Silent())
    lowering = lower(prepared.graph, prepared.machine, variation=variation_of(resolved))
    options = run_options(resolved, prepared.machine, 1)
    if lowering.program.varies or longest_period_s(prepared.machine) > 0.0:
        return iteration_time(run(lowering.program, options).iteration_end_ps.tolist()).seconds
    result = run(lowering.program, replace(options, stop=PROBE_RULE))
    return iteration_time(result.iteration_end_ps.tolist(), PROBE_RULE).seconds


def summary_of_run(resolved: ResolvedScenario) -> dict[str, Any]:
    """The summary of a run without its bound, which takes longer than the run."""
    done = simulation_of(resolved, Silent())
    return summary_of(done.prepared, done.analysis, bound=None, interval=None, levers=None, warnings=done.warnings)


@cache
def planned(name: str, *settings: str) -> ResolvedScenario:
    """A scenario with its plan written out, so that an edit of the machine does not change the plan."""
    return with_plan(load_scenario(name, settings), Silent())
