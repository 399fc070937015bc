"""The files of a run's output folder.

`summary.json` and ``trace.json.gz`` and `timeline.parquet` hold no wall-clock time, host or path: the same scenario
gives the same bytes. Values that differ from run to run are in `run.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dlrmsim.output.json_file import write_json
from dlrmsim.output.record import write_record
from scenarios.progress import Progress
from scenarios.runner import Outcome

RESOLVED_FILE = "scenario.resolved.yaml"
"""The scenario of a run, as it runs again."""


def write_results(
    folder: Path,
    outcome: Outcome,
    *,
    asked_ranks: Sequence[int],
    report: bool,
    wall_s: Mapping[str, float],
    progress: Progress,
) -> None:
    """Write all files of a run into an empty folder.

    Args:
        folder: the empty folder.
        outcome: the run.
        asked_ranks: ranks of the trace, first on the page; none: slowest, fastest, median and first in the trace.
        report: whether to write the page.
        wall_s: seconds of each stage so far, for the record.
        progress: receives the stages.
    """
    progress.stage("writing results")
    write_json(folder / "summary.json", outcome.summary)
    (folder / RESOLVED_FILE).write_text(outcome.resolved.to_yaml(), encoding="utf-8")
    _write_timeline(folder / "timeline.parquet", outcome)
    _write_trace(folder / "trace.json.gz", outcome, asked_ranks or outcome.analysis.ranks.distinct())
    if report:
        progress.stage("drawing the report")
        _write_report(folder / "report.html", outcome, asked_ranks)
    write_record(folder, {"scenario_hash": outcome.resolved.hash, "wall_s": dict(wall_s)})


def _write_timeline(path: Path, outcome: Outcome) -> None:
    import numpy as np

    from simulator.analysis import timeline_blocks, write_parquet
    from traces.parquet import program_metadata

    wanted = outcome.resolved.scenario.output.record.ranks
    ranks = None if wanted == "all" else np.unique(np.array(wanted, dtype=np.int64))
    graph, result = outcome.graph, outcome.result
    metadata = program_metadata(graph, result, shared=ranks is None)
    write_parquet(timeline_blocks(graph.programs, result, ranks=ranks), path, metadata=metadata)


def _write_trace(path: Path, outcome: Outcome, ranks: Sequence[int]) -> None:
    from simulator.analysis import Timeline
    from traces.chrome import chrome_trace, write_chrome_trace

    timeline = Timeline.from_run(outcome.graph.programs, outcome.result, ranks=ranks)
    write_chrome_trace(chrome_trace(outcome.graph, timeline, name=outcome.resolved.name), path)


def _write_report(path: Path, outcome: Outcome, asked_ranks: Sequence[int]) -> None:
    from dlrmsim.pages.findings import run_findings
    from reports.run_report import render_run

    path.write_text(render_run(run_findings(outcome, asked_ranks)), encoding="utf-8")
