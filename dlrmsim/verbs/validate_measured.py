"""``validate_measured``: the reference trainer's measurements against predictions of the same scenarios."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrmsim import __version__
from dlrmsim.output.folders import file_written_whole
from dlrmsim.verbs.what import Name, Names, paths_of
from scenarios.progress import Progress, Silent
from validation.measured import Measured, Times, read_measured
from validation.measured_prediction import cases_of, predict_measured, slower_than_then, statistics_of


@dataclass(frozen=True, slots=True)
class ValidateMeasuredResult:
    """Measurements with their predictions.

    Attributes:
        table: what ``--json`` prints.
        pairs: the measurement and the prediction of each folder.
    """

    table: dict[str, Any]
    pairs: tuple[tuple[Measured, Times], ...]


def validate_measured(
    what: Names,
    *,
    cluster: str | None = None,
    framework: str | None = None,
    out: Name | None = None,
    progress: Progress | None = None,
) -> ValidateMeasuredResult:
    """Predict what was measured.

    Args:
        what: folders that `measure` wrote.
        cluster: name or path of the machine; None: the one each scenario names.
        framework: name or path of the profile; None: the one each scenario names.
        out: HTML file with both timelines of each measurement; None: none is written.
        progress: receives the stages.

    Raises:
        InputError: a folder is no measurement, or the cluster or the profile is wrong.
    """
    shown, folders, pairs = progress or Silent(), paths_of(what), []
    for number, folder in enumerate(folders):
        shown.stage("predicting measurements", number, len(folders))
        measured = read_measured(folder)
        pairs.append((measured, predict_measured(measured, cluster, framework=framework)))
    runs = [
        {
            "folder": str(measured.folder),
            "scenario": measured.summary["scenario"],
            "world_size": measured.summary["world_size"],
            "slower": slower[0],
            "lookups_slower": slower[1],
            "warnings": measured.summary["warnings"],
            "cases": cases_of(measured, predicted),
        }
        for measured, predicted in pairs
        for slower in [slower_than_then(measured.times, predicted)]
    ]
    statistics = statistics_of([run["cases"] for run in runs])
    table: dict[str, Any] = {"measured": runs, "statistics": statistics}
    if out is not None:
        from reports.measured_report import render_measured

        bars = [(measured.times.bars, predicted.bars) for measured, predicted in pairs]
        told = [(run, *sides) for run, sides in zip(runs, bars, strict=True)]
        file_written_whole(Path(out), render_measured(told, statistics, __version__))
    return ValidateMeasuredResult(table, tuple(pairs))


def worst_above(table: dict[str, Any], limit_pct: float) -> list[str]:
    """Measurements whose iteration is predicted with a larger error than ``limit_pct``."""
    return [run["folder"] for run in table["measured"] if abs(run["cases"][0]["error_pct"]) > limit_pct]
