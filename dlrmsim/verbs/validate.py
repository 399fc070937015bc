"""``validate``: suites of published measurements against predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlrmsim import __version__
from dlrmsim.output.folders import RUNS_FOLDER, file_written_whole, require_file_writable
from dlrmsim.output.kept import kept_results
from dlrmsim.verbs.what import Name, Names, names_of
from dlrmsim.workers import workers_map
from reports.suite_report import render_suites
from scenarios.progress import Progress
from validation.suites.errors import statistics
from validation.suites.predict import Prediction
from validation.suites.score import score
from validation.suites.suite import load_suite

if TYPE_CHECKING:  # loaded with the first table
    import pandas as pd


@dataclass(frozen=True, slots=True)
class ValidatedCase:
    """A measurement and its prediction.

    Attributes:
        name: ``SUITE/CASE``.
        role: ``calibration`` (constants were fitted on it) or ``validation``.
        grade: quality of the measurement's source.
        measured: the measurement; None: the case is a band.
        predicted: the prediction; None: there is none.
        error_pct: its error; None: the case is a band.
        hit: whether the prediction is within the band; None: the case is a value.
    """

    name: str
    role: str
    grade: str
    metric: str
    unit: str
    measured: float | None
    predicted: float | None
    error_pct: float | None
    hit: bool | None


@dataclass(frozen=True, slots=True)
class ValidateResult:
    """Suites with predictions.

    Attributes:
        cases: all cases.
        taken_over: number of predictions that an interrupted run had made.
    """

    cases: tuple[ValidatedCase, ...]
    _suites: Sequence[Mapping[str, object]]
    taken_over: int = 0

    @property
    def table(self) -> pd.DataFrame:
        """A row per case, with the fields of `ValidatedCase`."""
        import pandas as pd

        return pd.DataFrame(self.cases)

    @property
    def statistics(self) -> pd.DataFrame:
        """A row per suite: mean, median and geometric mean of absolute errors, mean and worst error, per cent."""
        import pandas as pd

        return pd.DataFrame([{key: suite[key] for key in ("suite", *statistics(()))} for suite in self._suites])

    def to_dict(self) -> Mapping[str, Sequence[Mapping[str, object]]]:
        """The ``suites`` with everything about their cases, as ``validate --json`` prints them."""
        return {"suites": list(self._suites)}

    def above(self, limit_pct: float) -> list[str]:
        """Names of cases with a larger error, outside their band, or without a prediction."""
        return [
            case.name
            for case in self.cases
            if abs(case.error_pct or 0.0) > limit_pct or case.hit is False or case.predicted is None
        ]


def validate(
    what: Names,
    *,
    workers: int | None = None,
    out: Name | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> ValidateResult:
    """Predict what others measured.

    Predictions are kept until all are made (`dlrmsim.output.kept`): an interrupted run goes on with them.

    Args:
        workers: processes; default one per core.
        out: HTML file of predictions against measurements; None: no file.
        fresh: whether to predict again what an interrupted run had predicted.

    Raises:
        InputError: a suite, or a case in it, is wrong, or ``out`` cannot be written.
    """
    if out is not None:
        require_file_writable(Path(out))
    loaded = [load_suite(name) for name in names_of(what)]
    output = RUNS_FOLDER / f"validate-{'-'.join(file.stem for file, _ in loaded)}" if out is None else Path(out)
    with kept_results(output, fresh=fresh) as kept:
        shown = kept.shown(progress)
        suites = [
            score(file, suite, kept.mapped(workers_map(None, workers, len(suite.cases)), asdict, _prediction), shown)
            for file, suite in loaded
        ]
        if out is not None:
            file_written_whole(Path(out), render_suites(suites, __version__))
    cases = tuple(
        ValidatedCase(
            name=f"{suite['suite']}/{case['id']}",
            measured=None if "hit" in case else case["measured"],
            hit=case.get("hit"),
            **{key: case[key] for key in ("role", "grade", "metric", "unit", "predicted", "error_pct")},
        )
        for suite in suites
        for case in suite["cases"]
    )
    return ValidateResult(cases, suites, kept.taken_over)


def _prediction(kept: Mapping[str, Any]) -> Prediction:
    return Prediction(**kept)
