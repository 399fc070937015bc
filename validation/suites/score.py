"""Scores: predicted against measured, in the shape ``validate --json`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scenarios.located import of_file
from scenarios.mapping import Map
from scenarios.progress import Progress
from validation.suites.arrival_claims import arrival_case, planned_claim
from validation.suites.collective_cases import collective_cases, groups_of
from validation.suites.collective_ratios import ratio_case
from validation.suites.configurations import by_configuration, statistics_of
from validation.suites.coverage import coverage, job_interval
from validation.suites.errors import amount_errors, error_pct, hit_of, hits, is_amount, statistics
from validation.suites.predict import Prediction, SuiteJob, alternatives_of, predict
from validation.suites.repeats import repeats
from validation.suites.suite import Band, Case, Effect, Peer, Suite

Table = dict[str, Any]


def score(file: Path, suite: Suite, run_all: Map, progress: Progress | None = None) -> Table:
    """Simulate a suite and compare: one entry of ``suites``.

    Raises:
        InputError: a case is no valid scenario or asks for a metric that is not there.
    """
    with of_file(file):
        return _score(file, suite, run_all, progress)


def _score(file: Path, suite: Suite, run_all: Map, progress: Progress | None) -> Table:
    repeated = {
        case.id: alternatives_of(case.scenario, case.set, case.metric)
        for case in suite.cases
        if case.id in suite.alternatives
    }
    jobs = [
        *(_job(case) for case in suite.cases),
        *(SuiteJob.of(*case.other_run) for case in suite.cases if case.other_run is not None),
        *(job for options in repeated.values() for _, _, job in options),
        *(SuiteJob.of(e.scenario, side) for e in suite.effects for side in (e.before, e.after)),
        *(SuiteJob.of(peer.scenario, {}) for peer in suite.peers),
    ]
    timed = [row for asked in suite.collectives for row in collective_cases(file, suite, asked)]
    timed += [ratio_case(suite, asked) for asked in suite.collective_ratios]
    claims = [planned_claim(asked) for asked in suite.arrivals]
    predictions = predict([*jobs, *(run for claim in claims for run in claim.runs)], run_all, progress)
    repeated_cases = repeats(suite.cases)
    spreads = {name: group["spread_pct"] for group in repeated_cases for name in group["cases"]}
    cases = [_case(suite, case, predictions) | {"spread_pct": spreads.get(case.id)} for case in suite.cases]
    cases += [*timed, *(arrival_case(suite, claim, predictions) for claim in claims)]
    counted = [case for case in cases if not case.get("amount")]  # exact amounts would dilute errors of times
    return {
        "suite": file.stem,
        "cases": cases,
        "excluded": [e.model_dump() for e in suite.excluded],
        **statistics(_errors(_scored(counted), memory=False)),
        "by_configuration": statistics_of(by_configuration(_scored(counted))),
        "configurations": by_configuration(counted),
        "by_metric": _by_metric(_scored(counted)),
        "groups": groups_of(cases),
        "coverage": coverage(_scored(cases)),
        "memory_cases": statistics(_errors(counted, memory=True)),
        "calibration_cases": statistics(
            _errors([case for case in counted if case["role"] == "calibration"], memory=False)
        ),
        "amounts": amount_errors(
            [case["error_pct"] for case in cases if case.get("amount") and case["error_pct"] is not None]
        ),
        "bands": hits(cases),
        "repeats": repeated_cases,
        "alternatives": [
            _alternative(case, key, value, predictions[job])
            for case in suite.cases
            for key, value, job in repeated.get(case.id, [])
        ],
        "effects": [_effect(effect, predictions) for effect in suite.effects],
        "peers": [row for peer in suite.peers for row in _peer(peer, predictions)],
    }


def _scored(cases: Sequence[Table]) -> Sequence[Table]:
    """The cases that say how good a prediction is: those that nothing was calibrated on, if there are any."""
    return [case for case in cases if case["role"] == "validation"] or cases


def _by_metric(cases: Sequence[Table]) -> list[Table]:
    """Statistics of each metric of read cases, where there are several: a part of an iteration is no iteration."""
    found: dict[str, list[float]] = {}
    for case in cases:
        if case["error_pct"] is not None and case["grade"] != "memory" and "metric" in case:
            found.setdefault(case["metric"], []).append(case["error_pct"])
    rows = [{"metric": metric, "cases": len(errors), **statistics(errors)} for metric, errors in found.items()]
    return rows if len(rows) > 1 else []


def _errors(cases: Sequence[Table], *, memory: bool) -> list[float]:
    """Errors of the cases whose measurement is recalled, or of those whose is not."""
    errors = [case["error_pct"] for case in cases if (case["grade"] == "memory") is memory]
    return [error for error in errors if error is not None]


def _job(case: Case) -> SuiteJob:
    """The job of a case; ratios and amounts have no interval, which its bound is for."""
    return SuiteJob.of(case.scenario, case.set, bound=case.other_run is None and not is_amount(case.metric))


def _case(suite: Suite, case: Case, predictions: Mapping[SuiteJob, Prediction]) -> Table:
    prediction = predictions[_job(case)]
    predicted, measured = _predicted(case, prediction, predictions), case.measured
    row = {
        "id": case.id,
        "role": suite.role(prediction.inputs | case.inputs),
        "grade": case.grade,
        **({"title": case.title} if case.title else {}),
        **({} if case.other_run is None else {"ratio": True}),
        "inputs": prediction.inputs,
        "metric": case.metric,
        "unit": case.unit,
        "measured": measured.model_dump() if isinstance(measured, Band) else measured,
        "predicted": predicted,
        "error_pct": error_pct(predicted, measured),
        **({} if case.other_run is not None else job_interval(case, prediction)),
        **({"amount": True} if is_amount(case.metric) else {}),
        "source": case.source,
        "warnings": list(prediction.summary.get("warnings", ())),
    }
    row |= hit_of(predicted, measured)
    return row | ({"problem": prediction.problem} if prediction.problem else {})


def _predicted(case: Case, prediction: Prediction, predictions: Mapping[SuiteJob, Prediction]) -> float | None:
    """The metric of a case, or the ratio of two runs' metrics; None where a run gave none."""
    value = prediction.value(case.metric)
    if case.other_run is None or value is None:
        return value
    other = predictions[SuiteJob.of(*case.other_run)].value(case.metric)
    return value / other if other else None


def _alternative(case: Case, key: str, value: object, prediction: Prediction) -> Table:
    predicted = prediction.value(case.metric)
    return {
        "case": case.id,
        "quantity": key,
        "value": value,
        "metric": case.metric,
        "predicted": predicted,
        "error_pct": error_pct(predicted, case.measured),
        **({"problem": prediction.problem} if prediction.problem else {}),
    }


def _effect(effect: Effect, predictions: Mapping[SuiteJob, Prediction]) -> Table:
    before, after = (
        predictions[SuiteJob.of(effect.scenario, side)].throughput for side in (effect.before, effect.after)
    )
    gain = after / before if before and after else None
    return {
        "id": effect.id,
        "title": effect.title,
        "before": before,
        "after": after,
        "gain": gain,
        "published_gain": effect.gain,
        "helps": gain is not None and gain > 1.0,
        "source": effect.source,
        "grade": effect.grade,
    }


def _peer(peer: Peer, predictions: Mapping[SuiteJob, Prediction]) -> list[Table]:
    ours = predictions[SuiteJob.of(peer.scenario, {})].parts
    return [
        {
            "id": peer.id,
            "title": peer.title,
            "part": part,
            "peer": value,
            "ours": ours.get(part),
            "note": peer.notes.get(part, ""),
            "source": peer.source,
        }
        for part, value in peer.parts.items()
    ]
