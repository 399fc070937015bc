"""Rows of cases that are no scenario: published claims that are compared with one predicted number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from validation.suites.errors import error_pct, hit_of
from validation.suites.suite import ArrivalClaim, Band, CollectiveRatio, Suite


def claim_row(
    suite: Suite,
    asked: CollectiveRatio | ArrivalClaim,
    metric: str,
    inputs: Mapping[str, Any],
    predicted: float | None,
) -> dict[str, Any]:
    """The case of a claim, as `validation.suites.score` has those of scenarios."""
    measured, of = asked.measured, {**inputs, "metric": metric, "grade": asked.grade}
    return {
        "id": asked.id,
        "role": suite.role(of),
        "grade": asked.grade,
        **({"title": asked.title} if asked.title else {}),
        "inputs": of,
        "metric": metric,
        "unit": asked.unit,
        "measured": measured.model_dump() if isinstance(measured, Band) else measured,
        "predicted": predicted,
        "error_pct": error_pct(predicted, measured),
        **hit_of(predicted, measured),
        "source": asked.source,
        "warnings": [],
    }
