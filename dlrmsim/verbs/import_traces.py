"""``import_traces``: read the traces of a job, analyse them, and write the results."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrmsim.output.folders import replaceable
from dlrmsim.output.trace_results import TraceResults, write_trace_results
from dlrmsim.verbs.what import Name, Names, paths_of
from scenarios.progress import Progress, Silent
from traces import formats
from traces.analysis import TraceAnalysis, analyse_trace, import_summary
from traces.imported import Imported


@dataclass(frozen=True, slots=True)
class ImportTracesResult:
    """An import.

    Attributes:
        folder: output folder; None: nothing is written.
        imported: programs, times and gaps.
        analysis: analysis of its times; None for formats without times.
        summary: the content of ``summary.json``.
    """

    folder: Path | None
    imported: Imported
    analysis: TraceAnalysis | None
    summary: Mapping[str, object]


def import_traces(
    what: Names,
    *,
    ranks: Sequence[int] | None = None,
    op: str | None = None,
    whole: bool = False,
    report: bool = True,
    out: Name | None = None,
    progress: Progress | None = None,
) -> ImportTracesResult:
    """Import traces and write the results into ``out``, whole or not at all.

    Args:
        what: the traces of one job, or folders of them.
        ranks: ranks to keep; default: all.
        op: operation of nccl-tests logs without its name.
        whole: whether each Kineto trace is one step and the profiler's steps are ignored.
        report: whether to write the page.
        out: folder for ``summary.json``, and, for formats with times, ``timeline.parquet`` and ``report.html``.

    Raises:
        InputError: a trace is wrong, or ``out`` may not be written.
        ProgramError: ranks disagree on a collective.
    """
    progress, folder = progress or Silent(), None if out is None else replaceable(out, report=report)
    begin = time.perf_counter()
    progress.stage("reading traces")
    imported = formats.import_traces(paths_of(what), ranks, op, whole=whole)
    progress.stage("analysing")
    analysis = analyse_trace(imported, imported.measured) if imported.measured else None
    summary = import_summary(imported, analysis)
    if folder is not None:
        results = TraceResults(imported, analysis, summary)
        write_trace_results(folder, results, report=report, begin=begin, progress=progress)
    return ImportTracesResult(folder, imported, analysis, summary)
