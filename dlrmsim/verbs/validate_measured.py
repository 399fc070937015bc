"""``validate_measured``: the reference trainer's measurements against predictions of the same scenarios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from dlrmsim import __version__
from dlrmsim.output.folders import file_written_whole
from dlrmsim.verbs.what import Name, Names, paths_of
from scenarios.progress import Progress, Silent
from validation.host.comparison import cases_of, predict_measured, statistics_of
from validation.host.measurement import HostMeasurement, Times, read_measured
from validation.host.usual_times import slowness

if TYPE_CHECKING:  # loaded with the first table
    import pandas as pd


class MeasuredDocument(TypedDict):
    """The output of ``validate --measured DIR --json``.

    Attributes:
        measured: an entry per folder, with its cases.
        statistics: statistics of the errors, by metric.
    """

    measured: Sequence[Mapping[str, object]]
    statistics: Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class ValidateMeasuredResult:
    """Measurements with their predictions.

    Attributes:
        iteration_error_pct: error of each folder's iteration time.
        pairs: the measurement and the prediction of each folder.
    """

    iteration_error_pct: Mapping[str, float]
    pairs: tuple[tuple[HostMeasurement, Times], ...]
    _document: MeasuredDocument

    @property
    def table(self) -> pd.DataFrame:
        """A row per folder and metric: measured and predicted time, error, noise, share of the iteration."""
        import pandas as pd

        return pd.concat(
            [
                pd.DataFrame(cases_of(*pair)).assign(folder=str(pair[0].folder)).set_index(["folder", "metric"])
                for pair in self.pairs
            ]
        ).reset_index()

    @property
    def statistics(self) -> pd.DataFrame:
        """A row per metric: statistics of its errors over the folders, per cent."""
        import pandas as pd

        return pd.DataFrame([{"metric": name, **found} for name, found in self._document["statistics"].items()])

    def to_dict(self) -> MeasuredDocument:
        """Everything about the folders, as ``validate --measured DIR --json`` prints it."""
        return self._document

    def above(self, limit_pct: float) -> list[str]:
        """Folders whose iteration is predicted with a larger error."""
        return [folder for folder, error_pct in self.iteration_error_pct.items() if abs(error_pct) > limit_pct]


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

    Raises:
        InputError: a folder is no measurement, or the cluster or the profile is wrong.
    """
    shown, folders, pairs = progress or Silent(), paths_of(what), []
    for number, folder in enumerate(folders):
        shown.stage("predicting measurements", number, len(folders))
        measured = read_measured(folder)
        pairs.append((measured, predict_measured(measured, cluster, framework=framework)))
    runs: list[dict[str, Any]] = [
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
    errors_pct = {run["folder"]: run["cases"][0]["error_pct"] for run in runs}
    if out is not None:
        from reports.measured_report import render_measured

        bars = [(measured.times.bars, predicted.bars) for measured, predicted in pairs]
        pages = [(run, *sides) for run, sides in zip(runs, bars, strict=True)]
        file_written_whole(Path(out), render_measured(pages, statistics, __version__))
    document = MeasuredDocument(measured=runs, statistics=statistics)
    return ValidateMeasuredResult(errors_pct, tuple(pairs), document)
