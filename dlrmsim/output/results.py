"""The files of a run's output folder.

`summary.json` and `trace.json.gz` and `timeline.parquet` hold no wall-clock time, host or path: the same scenario
gives the same bytes. What differs from run to run is in `run.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dlrmsim.output.folders import RECORD_FILE, TOOL
from scenarios.progress import Progress
from scenarios.resolve import ResolvedScenario
from scenarios.runner import Outcome


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
        folder: where.
        outcome: what was found.
        asked_ranks: ranks of the trace, shown first on the page; none: slowest, fastest, median and first.
        report: whether to write the page.
        wall_s: seconds each stage took so far, for the record.
        progress: told what is being written.
    """
    progress.stage("writing results")
    write_json(folder / "summary.json", outcome.summary)
    _write_scenario(folder / "scenario.resolved.yaml", outcome.resolved)
    _write_timeline(folder / "timeline.parquet", outcome)
    _write_trace(folder / "trace.json.gz", outcome, asked_ranks or outcome.analysis.ranks.distinct())
    if report:
        progress.stage("drawing the report")
        _write_report(folder / "report.html", outcome, asked_ranks)
    _write_record(folder, outcome, wall_s)


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people and tools: indented, keys in the order they have."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def _write_scenario(path: Path, resolved: ResolvedScenario) -> None:
    path.write_text(resolved.to_yaml(), encoding="utf-8")


def _write_timeline(path: Path, outcome: Outcome) -> None:
    import numpy as np

    from simulator.analysis import timeline_blocks, write_parquet
    from traces.parquet import program_metadata

    wanted = outcome.resolved.scenario.output.record.ranks
    ranks = None if wanted == "all" else np.unique(np.array(wanted, dtype=np.int64))
    blocks = timeline_blocks(outcome.graph.programs, outcome.result, ranks=ranks)
    write_parquet(blocks, path, metadata=program_metadata(outcome.graph, outcome.result.iteration_end_ps))


def _write_trace(path: Path, outcome: Outcome, ranks: Sequence[int]) -> None:
    from simulator.analysis import Timeline
    from traces.chrome import chrome_trace, write_chrome_trace

    timeline = Timeline.from_run(outcome.graph.programs, outcome.result, ranks=ranks)
    write_chrome_trace(chrome_trace(outcome.graph, timeline, name=outcome.resolved.name), path)


def _write_report(path: Path, outcome: Outcome, asked_ranks: Sequence[int]) -> None:
    from dlrmsim.pages.findings import run_findings
    from reports.run_report import render_run

    path.write_text(render_run(run_findings(outcome, asked_ranks)), encoding="utf-8")


def _write_record(folder: Path, outcome: Outcome, wall_s: Mapping[str, float]) -> None:
    """Write what tells whose folder this is, and what differs from run to run."""
    from dlrmsim.output.environment import environment

    files = sorted([RECORD_FILE, *(path.name for path in folder.iterdir())])
    record = {"tool": TOOL, "files": files, "scenario_hash": outcome.resolved.hash, "wall_s": dict(wall_s)}
    write_json(folder / RECORD_FILE, record | environment())
