"""The files of an import or a replay: ``summary.json``, and, with times, ``timeline.parquet`` and ``report.html``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlrmsim.output.folders import folder_written_whole
from dlrmsim.output.json_file import write_json
from dlrmsim.output.record import write_record
from scenarios.progress import Progress
from traces.analysis import TraceAnalysis
from traces.export import write_timeline
from traces.imported import Imported
from traces.replay.record import ReplayRecord


@dataclass(frozen=True, slots=True)
class TraceResults:
    """Results of an import or a replay.

    Attributes:
        imported: programs and times.
        analysis: analysis of the times; None without times.
        summary: content of ``summary.json``.
        replay: record of a replay; None for an import.
    """

    imported: Imported
    analysis: TraceAnalysis | None
    summary: Mapping[str, object]
    replay: ReplayRecord | None = None


def write_trace_results(out: Path, results: TraceResults, *, report: bool, begin: float, progress: Progress) -> None:
    """Write the folder of an import or a replay, whole or not at all.

    Args:
        out: the folder.
        results: content of the files.
        report: whether to write the page.
        begin: `time.perf_counter` at the start of the command.
        progress: receives the stages.

    Raises:
        InputError: ``out`` may not be written.
    """
    progress.stage("writing results")
    imported, analysis = results.imported, results.analysis
    with folder_written_whole(out) as folder:
        wall_s = time.perf_counter() - begin
        write_json(folder / "summary.json", results.summary)
        if imported.measured is not None and analysis is not None:
            write_timeline(imported, folder / "timeline.parquet")
            if report:
                from dlrmsim.pages.traces import trace_page

                page = trace_page(imported, imported.measured, analysis, results.replay)
                (folder / "report.html").write_text(page, encoding="utf-8")
        sources = [str(file) for file in imported.files]
        write_record(
            folder, {"imported_from": sources, "wall_s": {"import" if results.replay is None else "replay": wall_s}}
        )
