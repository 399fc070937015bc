"""Page of traces or of their replay."""

from __future__ import annotations

from collections.abc import Sequence

from dlrmsim import __version__
from reports.trace_findings import TraceFindings
from reports.trace_report import render_trace
from traces.analysis import TraceAnalysis
from traces.imported import Imported
from traces.measured import MeasuredRun
from traces.replay.record import ReplayRecord

RANKS_SHOWN = 12
"""Ranks that a line about a gap lists."""


def trace_page(
    imported: Imported, measured: MeasuredRun, analysis: TraceAnalysis, replay: ReplayRecord | None = None
) -> str:
    """The page of an import with times, or of a replay."""
    first = imported.files[0].name
    findings = TraceFindings(
        programs=measured.graph.programs,
        result=measured.result,
        breakdown=analysis.breakdown,
        chosen=analysis.ranks,
        collectives=analysis.collectives,
        critical_path=analysis.critical_path,
        warnings=gap_lines(imported),
        name=first if len(imported.files) == 1 else f"{first} and {len(imported.files) - 1} more",
        format=imported.format,
        device=imported.device,
        replay=replay,
        world_size=imported.world_size,
        iteration_time_s=analysis.iteration_time_s,
        steps=analysis.steps,
        stragglers=analysis.stragglers,
        operators=analysis.operators,
        found=imported.found,
        version=__version__,
    )
    return render_trace(findings)


def gap_lines(imported: Imported) -> tuple[str, ...]:
    """Gaps of the traces, a line each."""
    return tuple(gap.words + (f" ({_rank_words(gap.ranks)})" if gap.ranks else "") for gap in imported.gaps)


def _rank_words(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:RANKS_SHOWN]))
    more = f" and {len(ranks) - RANKS_SHOWN:,} more" if len(ranks) > RANKS_SHOWN else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
