"""Runs for the laws: shipped scenarios on few nodes, without the search for the bound, with a plan that stays."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from scenarios.bursts import longest_period_s
from scenarios.convnet.section import ConvnetScenario
from scenarios.dlrm.section import DlrmScenario
from scenarios.dlrm.written import with_plan
from scenarios.engine_run import run_options, variation_of
from scenarios.prepare import prepare
from scenarios.probe import PROBE_RULE
from scenarios.progress import Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from scenarios.runner import simulation_of
from scenarios.summary import summary_of
from scenarios.transformer.family import settings_of
from scenarios.transformer.section import TransformerScenario
from simulator.analysis import Analysis, analyse, iteration_time
from simulator.engine import run
from simulator.lowering import lower
from workloads.dlrm.model.model import DlrmModel
from workloads.dlrm.model.sequences import lengths_of


def iteration_s(resolved: ResolvedScenario) -> float:
    """Seconds of an iteration; where all are alike, two equal ones are enough."""
    prepared = prepare(resolved, Silent())
    lowering = lower(prepared.graph, prepared.machine, variation=variation_of(resolved))
    options = run_options(resolved, prepared.machine, prepared.graph, 1)
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
    """A scenario with its plan written out, if it has one, so that an edit of the machine does not change the plan."""
    resolved = load_scenario(name, settings)
    return with_plan(resolved, Silent()) if isinstance(resolved.scenario, DlrmScenario) else resolved


class Small(NamedTuple):
    """A shipped scenario on few nodes, with rows that fit."""

    settings: tuple[str, ...]
    resolved: ResolvedScenario


FITS = {"dlrm": (1, ["workload.rows_scaling=fit"]), "convnet": (2, []), "transformer": (1, [])}
"""Part of its batch per rank with which a shipped job takes twice that, and the settings for few nodes, by kind."""
FULL = {"mlperf_dlrm_v4_hstu": 2, "mlperf_dlrm_v4_hstu_mi350x": 2}
"""The same part of jobs that fill the memory of their GPUs with activations, by name."""


def least_ranks(resolved: ResolvedScenario) -> int:
    """Ranks that hold one copy of the model: partitions; tensor, pipeline and context groups of a transformer."""
    if isinstance(resolved.scenario, ConvnetScenario):
        return resolved.scenario.workload.held_partitions
    if not isinstance(resolved.scenario, TransformerScenario):
        return 1
    return settings_of(resolved).sizes.replica


def equal_lengths(resolved: ResolvedScenario) -> list[str]:
    """Settings that give all histories the mean length: another batch has other lengths, and laws compare batches."""
    model = resolved.model
    if not isinstance(model, DlrmModel) or model.hstu is None:
        return []
    name = model.hstu.sequence
    lengths = lengths_of(model.sequences or {}, None, ())[name]
    mean = int(lengths.law.mean_length(lengths.maximum))
    return [f"workload.sequence_lengths={{{name}: {{distribution: fixed, mean: {mean}}}}}"]


@cache
def small(name: str, nodes: int, batches: int = 1, *more: str) -> Small:
    """The scenario on ``nodes`` nodes, or as many copies of a larger model, with its batch so many times or in part."""
    whole = load_scenario(name)
    part, fitting = FITS[whole.kind]
    part = FULL.get(name, part)
    ranks = min(nodes * max(whole.cluster.node.ranks, least_ranks(whole)), whole.world_size)
    batch = whole.batch_on(ranks) * batches // part
    settings = (f"world_size={ranks}", f"workload.global_batch_size={batch}", *fitting, *equal_lengths(whole), *more)
    return Small(settings, planned(name, *settings))


@cache
def base_s(name: str, nodes: int, *more: str) -> float:
    """Seconds of its iteration."""
    return iteration_s(small(name, nodes, 1, *more).resolved)


def analysis(resolved: ResolvedScenario) -> Analysis:
    """The analysis of a run of two iterations."""
    prepared = prepare(resolved, Silent())
    lowering = lower(prepared.graph, prepared.machine, variation=variation_of(resolved))
    result = run(lowering.program, run_options(resolved, prepared.machine, prepared.graph, 2))
    return analyse(prepared.graph, lowering.program, result)


def check_sums(found: Analysis) -> None:
    """Breakdown and critical path sum to their windows."""
    parts, path = found.breakdown, found.critical_path
    sums = parts.compute_ps + parts.exposed_comm_ps + parts.exposed_copy_ps + parts.idle_ps
    assert np.all(sums == parts.window.end_ps - parts.window.start_ps)
    assert sum(path.by_category_ps().values()) == path.window.end_ps - path.window.start_ps
