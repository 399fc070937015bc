"""``validate``: suites of published measurements against predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrmsim import __version__
from dlrmsim.output.folders import file_written_whole, require_file_writable
from dlrmsim.verbs.what import Name, Names, names_of
from dlrmsim.workers import workers_map
from reports.suite_report import render_suites
from scenarios.progress import Progress
from validation.suites.score import score
from validation.suites.suite import load_suite


@dataclass(frozen=True, slots=True)
class ValidatedCase:
    """A measurement and its prediction.

    Attributes:
        name: ``SUITE/CASE``.
        predicted: the prediction; None: there is none.
        error_pct: its error; None: the case is a band.
        hit: whether the prediction is within the band; None: the case is a value.
    """

    name: str
    predicted: float | None
    error_pct: float | None
    hit: bool | None


@dataclass(frozen=True, slots=True)
class ValidateResult:
    """Suites with predictions.

    Attributes:
        cases: all cases.
        suites: an entry of ``validate --json`` each.
    """

    cases: tuple[ValidatedCase, ...]
    suites: Sequence[Mapping[str, object]]

    def above(self, limit_pct: float) -> list[str]:
        """Names of cases with a larger error, outside their band, or without a prediction."""
        return [
            case.name
            for case in self.cases
            if abs(case.error_pct or 0.0) > limit_pct or case.hit is False or case.predicted is None
        ]


def validate(
    what: Names, *, workers: int | None = None, out: Name | None = None, progress: Progress | None = None
) -> ValidateResult:
    """Predict what others measured.

    Args:
        workers: processes; default one per core.
        out: HTML file of predictions against measurements; None: no file.

    Raises:
        InputError: a suite, or a case in it, is wrong, or ``out`` cannot be written.
    """
    if out is not None:
        require_file_writable(Path(out))
    loaded = [load_suite(name) for name in names_of(what)]
    suites = [score(file, suite, workers_map(None, workers, len(suite.cases)), progress) for file, suite in loaded]
    cases = tuple(
        ValidatedCase(f"{suite['suite']}/{case['id']}", case["predicted"], case["error_pct"], case.get("hit"))
        for suite in suites
        for case in suite["cases"]
    )
    if out is not None:
        file_written_whole(Path(out), render_suites(suites, __version__))
    return ValidateResult(cases, suites)
