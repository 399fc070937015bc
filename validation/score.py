"""Scores: predicted against measured, in the shape ``validate --json`` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scenarios.mapping import Map
from scenarios.progress import Progress
from validation.predict import Job, Prediction, alternatives_of, predict
from validation.suite import Band, Case, Effect, Peer, Suite

Table = dict[str, Any]
THROUGHPUT = "throughput_samples_per_s"


def score(name: str, suite: Suite, run_all: Map, progress: Progress | None = None) -> Table:
    """Simulate a suite and compare: one entry of ``suites``.

    Raises:
        InputError: a case is no valid scenario or asks for a metric that is not there.
    """
    repeated = {
        case.id: alternatives_of(case.scenario, case.set) for case in suite.cases if case.id in suite.alternatives
    }
    jobs = [
        *(Job.of(case.scenario, case.set) for case in suite.cases),
        *(job for options in repeated.values() for _, _, job in options),
        *(Job.of(e.scenario, side) for e in suite.effects for side in (e.before, e.after)),
        *(Job.of(peer.scenario, {}) for peer in suite.peers),
    ]
    predictions = predict(jobs, run_all, progress)
    cases = [_case(suite, case, predictions) for case in suite.cases]
    return {
        "suite": name,
        "cases": cases,
        "excluded": [e.model_dump() for e in suite.excluded],
        **statistics([c["error_pct"] for c in cases if c["grade"] != "memory" and c["error_pct"] is not None]),
        "memory_cases": statistics(
            [c["error_pct"] for c in cases if c["grade"] == "memory" and c["error_pct"] is not None]
        ),
        "alternatives": [
            _alternative(case, key, value, predictions[job])
            for case in suite.cases
            for key, value, job in repeated.get(case.id, [])
        ],
        "effects": [_effect(effect, predictions) for effect in suite.effects],
        "peers": [row for peer in suite.peers for row in _peer(peer, predictions)],
    }


def _errors(cases: Sequence[Table], *, memory: bool) -> list[float]:
    """Errors of the cases whose measurement is recalled, or of those whose is not."""
    errors = [case["error_pct"] for case in cases if (case["grade"] == "memory") is memory]
    return [error for error in errors if error is not None]


def statistics(errors_pct: Sequence[float]) -> Table:
    """Mean, median and geometric mean of absolute errors, mean and worst error, in per cent; None without errors."""
    if not errors_pct:
        return dict.fromkeys(("mape_pct", "median_pct", "geomean_pct", "bias_pct", "worst_pct"))
    sizes = sorted(abs(error) for error in errors_pct)
    middle = len(sizes) // 2
    median = sizes[middle] if len(sizes) % 2 else (sizes[middle - 1] + sizes[middle]) / 2
    return {
        "mape_pct": sum(sizes) / len(sizes),
        "median_pct": median,
        "geomean_pct": 0.0 if sizes[0] == 0 else math.exp(sum(math.log(size) for size in sizes) / len(sizes)),
        "bias_pct": sum(errors_pct) / len(errors_pct),
        "worst_pct": max(errors_pct, key=abs),
    }


def error_pct(predicted: float | None, measured: float | Band) -> float | None:
    """100 (predicted / measured - 1); None for a band, or when nothing was predicted."""
    if predicted is None or isinstance(measured, Band):
        return None
    return 100.0 * (predicted / measured - 1.0)


def _case(suite: Suite, case: Case, predictions: Mapping[Job, Prediction]) -> Table:
    prediction = predictions[Job.of(case.scenario, case.set)]
    predicted = prediction.value(case.metric)
    measured = case.measured
    row = {
        "id": case.id,
        "role": suite.role(prediction.inputs),
        "grade": case.grade,
        "inputs": prediction.inputs,
        "metric": case.metric,
        "unit": case.unit,
        "measured": measured.model_dump() if isinstance(measured, Band) else measured,
        "predicted": predicted,
        "error_pct": error_pct(predicted, measured),
        "source": case.source,
    }
    if isinstance(measured, Band):
        row["hit"] = predicted is not None and measured.low <= predicted <= measured.high
    return row | ({"problem": prediction.problem} if prediction.problem else {})


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


def _effect(effect: Effect, predictions: Mapping[Job, Prediction]) -> Table:
    before, after = (
        predictions[Job.of(effect.scenario, side)].value(THROUGHPUT) for side in (effect.before, effect.after)
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


def _peer(peer: Peer, predictions: Mapping[Job, Prediction]) -> list[Table]:
    ours = predictions[Job.of(peer.scenario, {})].parts
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
