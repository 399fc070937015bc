"""Analysis of a measured trace with the functions for simulated runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from simulator.analysis import (
    Breakdown,
    ChosenRanks,
    CollectiveRow,
    CriticalPath,
    Window,
    break_down,
    choose_ranks,
    collective_table,
    critical_path,
)
from simulator.analysis.steps import RankWindow, StepRow, step_table
from simulator.analysis.stragglers import Straggler, stragglers
from simulator.analysis.summary import breakdown_summary, critical_path_summary
from simulator.categories import Category
from simulator.lowered import PS_PER_S
from simulator.operators import Measured
from traces.imported import Imported, RankStep
from traces.measured import MeasuredRun
from traces.task_names import common_name

LONGEST_OPERATORS = 40
"""Kernels and other device work listed by total time."""


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """Device work of one name over all ranks."""

    name: str
    category: Category
    count: int
    total_s: float


@dataclass(frozen=True, slots=True)
class TraceAnalysis:
    """Results of a measured trace.

    Attributes:
        iteration_time_s: mean length of the steps over ranks; the whole trace where it has no steps.
        breakdown: breakdown of every rank, from the first rank's first step to the end of the last one.
        steps: every rank's own steps.
        collectives: a row per collective task.
        critical_path: over all ranks, of the breakdown's window.
        ranks: ranks to look at first.
        stragglers: ranks that the others wait for.
        operators: device work by name, the longest first.
    """

    iteration_time_s: float
    breakdown: Breakdown
    steps: tuple[StepRow, ...]
    collectives: tuple[CollectiveRow, ...]
    critical_path: CriticalPath
    ranks: ChosenRanks
    stragglers: tuple[Straggler, ...]
    operators: tuple[OperatorRow, ...]


def analyse_trace(imported: Imported, measured: MeasuredRun) -> TraceAnalysis:
    """Analyse an import that has times."""
    graph, result = measured.graph, measured.result
    window = _window(imported.steps, int(result.iteration_end_ps[-1]))
    windows = [RankWindow(s.rank, s.name, Window(0, s.start_ps, s.end_ps)) for s in imported.steps]
    breakdown = break_down(graph.programs, result, window=window)
    lengths = [s.end_ps - s.start_ps for s in imported.steps] or [window.length_ps]
    return TraceAnalysis(
        iteration_time_s=float(np.mean(lengths)) / PS_PER_S,
        breakdown=breakdown,
        steps=step_table(graph.programs, result, windows),
        collectives=collective_table(graph, result, iteration=0),
        critical_path=critical_path(graph.programs, measured.lowered, result, window=window),
        ranks=choose_ranks(breakdown),
        stragglers=stragglers(measured.lowered, result),
        operators=_operators(measured),
    )


def _window(steps: Sequence[RankStep], end_ps: int) -> Window:
    if not steps:
        return Window(0, 0, end_ps)
    return Window(0, min(s.start_ps for s in steps), max(s.end_ps for s in steps))


def _operators(measured: MeasuredRun) -> tuple[OperatorRow, ...]:
    """Device work by the name its task has without its number."""
    found: dict[tuple[str, Category], list[int]] = {}
    for program, times in zip(measured.graph.programs, measured.result.records[0].groups, strict=True):
        lengths = (times.end_ps - times.start_ps).sum(axis=1).tolist()
        for name, category, work, length in zip(program.names, program.categories, program.work, lengths, strict=True):
            if category in (Category.COMPUTE, Category.COMM, Category.COPY):
                whole = work.name if isinstance(work, Measured) and work.name else common_name(name)
                sums = found.setdefault((whole, category), [0, 0])
                sums[0] += program.rank_count
                sums[1] += length
    rows = [OperatorRow(name, category, count, ps / PS_PER_S) for (name, category), (count, ps) in found.items()]
    return tuple(sorted(rows, key=lambda row: (-row.total_s, row.name)))


def import_summary(imported: Imported, analysis: TraceAnalysis | None) -> dict[str, Any]:
    """The content of an import's ``summary.json``; documented in docs/reference/traces.md."""
    summary: dict[str, Any] = {
        "format": imported.format,
        "files": [file.name for file in imported.files],
        "world_size": imported.world_size,
        "ranks_with_trace": len(imported.ranks),
        "device": imported.device,
        "complete": not imported.gaps,
        "found": dict(imported.found),
        "gaps": [{"what": g.what, "count": g.count, "ranks": list(g.ranks[:64])} for g in imported.gaps],
    }
    return summary if analysis is None else summary | _measured_summary(analysis)


def _measured_summary(analysis: TraceAnalysis) -> dict[str, Any]:
    operators = [asdict(row) | {"category": str(row.category)} for row in analysis.operators[:LONGEST_OPERATORS]]
    return {
        "iteration_time_s": analysis.iteration_time_s,
        "breakdown": breakdown_summary(analysis.breakdown),
        "steps": [asdict(row) for row in analysis.steps],
        "ranks": asdict(analysis.ranks),
        "collectives": [asdict(row) for row in analysis.collectives],
        "stragglers": [asdict(row) for row in analysis.stragglers],
        "critical_path": critical_path_summary(analysis.critical_path),
        "operators": operators,
    }
