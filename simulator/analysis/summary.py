"""All analyses of a run together, and the numbers of ``summary.json`` (documented in docs/reference/metrics.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from simulator.analysis.bound import Bound, Gain
from simulator.analysis.breakdown import PARTS, TOTALS, Breakdown, break_down
from simulator.analysis.collectives import CollectiveRow, collective_table
from simulator.analysis.critical_path import CriticalPath, critical_path
from simulator.analysis.metrics import IterationTime, SteadyRule, iteration_time
from simulator.analysis.ranks import ChosenRanks, choose_ranks
from simulator.analysis.totals import total_ps
from simulator.categories import INPUT_CATEGORIES, INPUT_SECTION
from simulator.engine.records import EngineRun
from simulator.lowered import PS_PER_S, LoweredProgram
from simulator.operators import Delay
from simulator.program import IntArray, TaskGraph


@dataclass(frozen=True, slots=True)
class Analysis:
    """Results of a run.

    Attributes:
        breakdown: mean over all ranks.
        ranks: chosen among those that train.
        roles: breakdown of the ranks of each role, those that train first; empty where all do the same.
    """

    iteration: IterationTime
    breakdown: Breakdown
    collectives: tuple[CollectiveRow, ...]
    critical_path: CriticalPath
    ranks: ChosenRanks
    roles: Mapping[str, Breakdown] = field(default_factory=dict)

    @property
    def training(self) -> Breakdown:
        """Breakdown of the ranks that train."""
        return next(iter(self.roles.values()), self.breakdown)


def by_role(breakdown: Breakdown, roles: Mapping[str, int]) -> dict[str, Breakdown]:
    """Breakdown of the ranks of each role, from their numbers in ascending order of ranks."""
    ends = list(accumulate(roles.values(), initial=0))
    return {name: breakdown.of(range(*span)) for name, span in zip(roles, pairwise(ends), strict=True)}


def analyse(
    graph: TaskGraph,
    lowered: LoweredProgram,
    result: EngineRun,
    *,
    algorithms: Mapping[str, str] | None = None,
    rule: SteadyRule | None = None,
    roles: Mapping[str, int] | None = None,
) -> Analysis:
    """Analyse a run.

    Args:
        graph: the programs, one per group of the run, in its order.
        lowered: the same groups lowered.
        result: the run, with at least one recorded iteration.
        algorithms: name of the algorithm of each collective task, by task name.
        rule: when a run counts as settled.
        roles: numbers of ranks by role, those that train first, in ascending order of ranks; none: all train.
    """
    breakdown = break_down(graph.programs, result)
    of_role = by_role(breakdown, roles or {})
    return Analysis(
        iteration=iteration_time(result.iteration_end_ps.tolist(), rule),
        breakdown=breakdown,
        collectives=collective_table(graph, result, algorithms=algorithms),
        critical_path=critical_path(graph.programs, lowered, result),
        ranks=choose_ranks(next(iter(of_role.values()), breakdown)),
        roles=of_role,
    )


def rate_key(unit: str) -> str:
    """Key of a throughput in results: ``throughput_samples_per_s``."""
    return f"throughput_{unit}_per_s"


def summarise(
    analysis: Analysis,
    *,
    nodes: int,
    global_batch_size: int,
    scenario_hash: str,
    bound: Bound | None = None,
    memory: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
    unit: str = "samples",
) -> dict[str, Any]:
    """The content of ``summary.json``: plain numbers, strings, lists and dicts, the same for the same run.

    Args:
        analysis: the run's analysis.
        nodes: nodes of the cluster in use.
        global_batch_size: samples per iteration over all ranks.
        scenario_hash: sha256 of the resolved scenario.
        bound: the bound of the iteration, when it was asked for.
        memory: memory per rank and tier, ready to be written.
        warnings: one text each.
        unit: unit of throughput, a plural noun.
    """
    time, breakdown = analysis.iteration, analysis.training
    roles = {name: _role(of_role) for name, of_role in analysis.roles.items()}
    return {
        "scenario_hash": scenario_hash,
        "iteration_time_s": time.seconds,
        rate_key(unit): time.throughput_per_s(global_batch_size),
        "steady": time.steady,
        "warm_up_iterations": time.warm_up_iterations,
        "period_iterations": time.period_iterations,
        "measured_iterations": time.measured_iterations,
        "iterations": time.iterations,
        "world_size": len(analysis.breakdown.ranks),
        "nodes": nodes,
        "global_batch_size": global_batch_size,
        "breakdown": breakdown_summary(breakdown),
        **({"roles": roles} if roles else {}),
        "exposed_comm_fraction": _fraction(breakdown, "exposed_comm"),
        "imbalance": imbalance(breakdown),
        "ranks": asdict(analysis.ranks),
        "collectives": [asdict(row) for row in analysis.collectives],
        "critical_path": critical_path_summary(analysis.critical_path),
        "bound": None if bound is None else _bound(bound),
        "memory": dict(memory or {}),
        "warnings": list(warnings),
    }


def imbalance(breakdown: Breakdown) -> float:
    """Largest compute time of a rank over the mean: 1 when all ranks compute alike (or not at all)."""
    total = total_ps(breakdown.compute_ps)
    return int(breakdown.compute_ps.max()) * len(breakdown.ranks) / total if total else 1.0


def breakdown_summary(breakdown: Breakdown) -> dict[str, Any]:
    """The breakdown of a window, over ranks."""
    window = breakdown.window
    return {
        "iteration": window.iteration,
        "window_s": window.length_ps / PS_PER_S,
        **{f"{name}_s": _over_ranks(getattr(breakdown, f"{name}_ps")) for name in (*PARTS, *TOTALS)},
        "fractions": {name: _fraction(breakdown, name) for name in PARTS},
        "exposed_share_of_comm": _share(breakdown.exposed_comm_ps, breakdown.comm_ps),
    }


def _role(breakdown: Breakdown) -> dict[str, Any]:
    """Ranks of a role, and the mean of each part of their time."""
    return {"ranks": len(breakdown.ranks), **{f"{name}_fraction": _fraction(breakdown, name) for name in PARTS}}


def _share(part_ps: IntArray, whole_ps: IntArray) -> float:
    """Sum over ranks of a part over that of the whole; 0 of nothing."""
    whole = total_ps(whole_ps)
    return total_ps(part_ps) / whole if whole else 0.0


def _over_ranks(times_ps: IntArray) -> dict[str, float]:
    mean_ps = total_ps(times_ps) / len(times_ps)
    return {
        "mean": mean_ps / PS_PER_S,
        "min": int(times_ps.min()) / PS_PER_S,
        "max": int(times_ps.max()) / PS_PER_S,
    }


def _fraction(breakdown: Breakdown, part: str) -> float:
    """The part's mean over ranks as a fraction of the window (0 of an empty window)."""
    whole_ps = breakdown.window.length_ps * len(breakdown.ranks)
    return total_ps(getattr(breakdown, f"{part}_ps")) / whole_ps if whole_ps else 0.0


def path_shares(path: CriticalPath) -> dict[str, float]:
    """Share of the critical path of each category, 0 to 1.

    Waits for launches count as host; host work, copies and readers of section ``input`` count as input.
    """
    times_ps, whole_ps = path.by_category_ps(), max(path.window.length_ps, 1)
    times_ps["host"] += path.by_operator_ps().get(Delay.__name__, 0)
    brings_in = [s for s in path.segments if s.section == INPUT_SECTION and s.category in INPUT_CATEGORIES]
    times_ps["input"] = sum(segment.length_ps for segment in brings_in)
    return {name: time_ps / whole_ps for name, time_ps in times_ps.items()}


def critical_path_summary(path: CriticalPath) -> dict[str, Any]:
    """Seconds of the critical path by category, section and operator."""

    def seconds(times_ps: Mapping[str, int]) -> dict[str, float]:
        return {name: time_ps / PS_PER_S for name, time_ps in times_ps.items()}

    return {
        "window_s": path.window.length_ps / PS_PER_S,
        "segments": len(path.segments),
        "by_category_s": seconds(path.by_category_ps()),
        "by_section_s": seconds(path.by_section_ps()),
        "by_operator_s": seconds(path.by_operator_ps()),
    }


def _bound(bound: Bound) -> dict[str, Any]:
    bounding = bound.bounding
    return {
        **_best_of(bound.gains, bound.winner, bound.runner_up),
        "finding": bound.finding,
        "joint": {
            **_best_of(bound.joint, bounding, bound.next_bounding),
            "spread": [gain.resource_class for gain in bound.spread],
            "path_shares": dict(bound.path_shares),
        },
    }


def _best_of(gains: Sequence[Gain], best: Gain | None, runner_up: Gain | None) -> dict[str, Any]:
    """The best class, the next one, and the gains of all."""
    return {
        "class": best.resource_class if best else None,
        "gain": best.gain if best else None,
        "runner_up": runner_up.resource_class if runner_up else None,
        "runner_up_gain": runner_up.gain if runner_up else None,
        "gains": {gain.resource_class: gain.gain for gain in gains},
    }
