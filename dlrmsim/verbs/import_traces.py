"""Traces: import, analyse, write what they show; fetch the public ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrmsim import __version__
from dlrmsim.output.folders import RECORD_FILE, TOOL, folder_written_whole, require_replaceable
from dlrmsim.output.results import write_json
from scenarios.progress import Progress, Silent
from traces.analysis import TraceAnalysis, analyse_trace, import_summary
from traces.export import write_timeline
from traces.formats import import_traces
from traces.imported import Imported
from traces.measured import MeasuredRun

RANKS_SHOWN = 12
"""Ranks a gap is listed with."""


@dataclass(frozen=True, slots=True)
class ImportFinished:
    """An import.

    Attributes:
        imported: programs, times and gaps.
        analysis: what its times show; None for formats without.
        summary: the content of ``summary.json``.
        folder: where it was written; None when it was not.
    """

    imported: Imported
    analysis: TraceAnalysis | None
    summary: dict[str, Any]
    folder: Path | None


def run_import(
    files: Sequence[Path],
    out: Path | None = None,
    *,
    ranks: Sequence[int] | None = None,
    report: bool = True,
    progress: Progress | None = None,
) -> ImportFinished:
    """Import traces and write what they show into ``out``, whole or not at all.

    Args:
        files: the traces of one job.
        out: folder for ``summary.json``, and, for formats with times, ``timeline.parquet`` and ``report.html``.
        ranks: ranks to keep; default: all.
        report: whether to write the page.
        progress: told what is being done.

    Raises:
        InputError: a trace is wrong, or ``out`` may not be written.
        ProgramError: ranks disagree on a collective.
    """
    progress = progress or Silent()
    if out is not None:
        require_replaceable(out)
    begin = time.perf_counter()
    progress.stage("reading traces")
    imported = import_traces(files, ranks)
    progress.stage("analysing")
    analysis = analyse_trace(imported, imported.measured) if imported.measured else None
    summary = import_summary(imported, analysis)
    finished = ImportFinished(imported, analysis, summary, out)
    if out is not None:
        write_finished(out, finished, report=report, begin=begin, progress=progress)
    return finished


def write_finished(out: Path, finished: ImportFinished, *, report: bool, begin: float, progress: Progress) -> None:
    """Write what an import or a replay shows, whole or not at all.

    Args:
        out: the folder.
        finished: what to write.
        report: whether to write the page.
        begin: `time.perf_counter` when the command began.
        progress: told what is being done.

    Raises:
        InputError: ``out`` may not be written.
    """
    progress.stage("writing results")
    with folder_written_whole(out) as partial:
        _write(partial, finished, report=report, wall_s=time.perf_counter() - begin)


def _write(folder: Path, finished: ImportFinished, *, report: bool, wall_s: float) -> None:
    from dlrmsim.output.environment import environment

    write_json(folder / "summary.json", finished.summary)
    measured = finished.imported.measured
    if measured is not None and finished.analysis is not None:
        write_timeline(finished.imported, folder / "timeline.parquet")
        if report:
            page = _page(finished.imported, measured, finished.analysis)
            (folder / "report.html").write_text(page, encoding="utf-8")
    files = sorted([RECORD_FILE, *(path.name for path in folder.iterdir())])
    sources = [str(file) for file in finished.imported.files]
    record = {"tool": TOOL, "files": files, "imported_from": sources, "wall_s": {"import": wall_s}}
    write_json(folder / RECORD_FILE, record | environment())


def _page(imported: Imported, measured: MeasuredRun, analysis: TraceAnalysis) -> str:
    from reports.trace_findings import TraceFindings
    from reports.trace_report import render_trace

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
    """What the traces do not say, a line each."""
    return tuple(gap.words + (f" ({_rank_words(gap.ranks)})" if gap.ranks else "") for gap in imported.gaps)


def _rank_words(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:RANKS_SHOWN]))
    more = f" and {len(ranks) - RANKS_SHOWN:,} more" if len(ranks) > RANKS_SHOWN else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
