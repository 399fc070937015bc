"""Validation: suites of published measurements against predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlrmsim.workers import workers_map
from scenarios.progress import Progress
from validation.suites.score import score
from validation.suites.suite import load_suite


def validate(
    suites: Sequence[str], *, workers: int | None = None, progress: Progress | None = None
) -> dict[str, list[dict[str, Any]]]:
    """What ``validate --json`` prints.

    Args:
        suites: names or paths.
        workers: processes; default one per core.
        progress: told how many cases are done.

    Raises:
        InputError: a suite, or a case in it, is wrong.
    """
    loaded = [load_suite(name) for name in suites]
    return {
        "suites": [score(file, suite, workers_map(None, workers, len(suite.cases)), progress) for file, suite in loaded]
    }


def worst_above(result: dict[str, list[dict[str, Any]]], limit_pct: float) -> list[str]:
    """Cases whose error is larger than ``limit_pct``, or that missed their band."""
    return [
        f"{suite['suite']}/{case['id']}"
        for suite in result["suites"]
        for case in suite["cases"]
        if abs(case["error_pct"] or 0.0) > limit_pct or case.get("hit") is False or case["predicted"] is None
    ]
