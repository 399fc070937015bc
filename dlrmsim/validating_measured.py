"""``validate --measured``: the reference trainer's measurements against predictions of the same scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrmsim import __version__
from dlrmsim.outputs import file_written_whole
from scenarios.progress import Progress, Silent
from validation.host.comparison import cases_of, predict_measured, statistics_of
from validation.host.measurement import Measured, Times, read_measured
from validation.host.usual_times import slowness


@dataclass(frozen=True, slots=True)
class Validated:
    """Measurements with their predictions.

    Attributes:
        table: output of ``--json``.
        pairs: the measurement and the prediction of each folder.
    """

    table: dict[str, Any]
    pairs: tuple[tuple[Measured, Times], ...]


def validate_measured(
    folders: Sequence[Path],
    cluster: str | None = None,
    report: Path | None = None,
    progress: Progress | None = None,
    *,
    framework: str | None = None,
) -> Validated:
    """Predict measured scenarios.

    Args:
        folders: folders of ``dlrmsim measure``.
        cluster: name or path of the machine; None: the one each scenario names.
        report: HTML file with both timelines of each measurement; None: no file.
        progress: receives the stage.
        framework: name or path of the profile; None: the one each scenario names.

    Raises:
        InputError: a folder is no measurement, or the cluster or the profile is wrong.
    """
    shown = progress or Silent()
    pairs = []
    for number, folder in enumerate(folders):
        shown.stage("predicting measurements", number, len(folders))
        measured = read_measured(folder)
        pairs.append((measured, predict_measured(measured, cluster, framework=framework)))
    runs = [
        {
            "folder": str(measured.folder),
            "scenario": measured.summary["scenario"],
            "world_size": measured.summary["world_size"],
            "slower": slowness(measured.times.yardstick_s, predicted.yardstick_s),
            "warnings": measured.summary["warnings"],
            "cases": cases_of(measured, predicted),
        }
        for measured, predicted in pairs
    ]
    statistics = statistics_of([run["cases"] for run in runs])
    table: dict[str, Any] = {"measured": runs, "statistics": statistics}
    if report is not None:
        from reports.measured_report import render_measured

        bars = [(measured.times.bars, predicted.bars) for measured, predicted in pairs]
        shown_runs = [(run, *sides) for run, sides in zip(runs, bars, strict=True)]
        file_written_whole(report, render_measured(shown_runs, statistics, __version__))
    return Validated(table, tuple(pairs))


def worst_above(table: dict[str, Any], limit_pct: float) -> list[str]:
    """Measurements whose iteration is predicted with a larger error than ``limit_pct``."""
    return [run["folder"] for run in table["measured"] if abs(run["cases"][0]["error_pct"]) > limit_pct]
