"""Repeated measurements of one configuration: their spread, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from reports.tables import validation_report
from validation.suites.errors import amount_errors, hits, statistics
from validation.suites.repeats import repeats
from validation.suites.suite import Case


def case(name: str, measured: Any, **changes: Any) -> Case:
    given = {"id": name, "scenario": "s", "metric": "iteration_time_s", "unit": "s", "source": "a test"}
    return Case.model_validate(given | {"grade": "read", "measured": measured} | changes)


def test_the_spread_of_three_submissions() -> None:
    """8, 10, 14: median 10, half the range 3, so 30 %; whoever says 10 is off by 25, 0 and 28.6 %."""
    (found,) = repeats([case("a", 8.0), case("b", 14.0), case("c", 10.0)])
    assert found["cases"] == ["a", "b", "c"]
    assert found["median"] == 10
    assert found["spread_pct"] == pytest.approx(30)
    assert found["mean_deviation_pct"] == pytest.approx((25 + 0 + 100 * 4 / 14) / 3)


def test_settings_are_compared_whatever_their_order() -> None:
    one, two = {"nodes": 1, "cluster": "a"}, {"cluster": "a", "nodes": 1}
    assert len(repeats([case("a", 1.0, set=one), case("b", 2.0, set=two)])) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"set": {"nodes": 2}},
        {"scenario": "t"},
        {"metric": "throughput_samples_per_s"},
        {"grade": "memory"},
        {"measured": {"low": 1.0, "high": 2.0}},
    ],
)
def test_what_is_no_repeat(changes: dict[str, Any]) -> None:
    """Another configuration or metric, a recalled value, a band."""
    measured = changes.pop("measured", 1.0)
    assert repeats([case("a", 1.0), case("b", measured, **changes)]) == []


def test_the_report_prints_the_spread_beside_the_error_and_the_floor_below() -> None:
    from rich.console import Console

    groups = repeats([case("a", 8.0), case("b", 12.0)])
    same = {"metric": "iteration_time_s", "measured": 8.0, "predicted": 8.0, "error_pct": 0.0, "inputs": {}}
    row = same | {"grade": "read", "role": "validation"}
    rows = [row | {"id": "a", "spread_pct": groups[0]["spread_pct"]}, row | {"id": "alone", "spread_pct": None}]
    suite = {
        "suite": "mine", "cases": rows, "excluded": [], "groups": [], "alternatives": [], "effects": [], "peers": [],
        "memory_cases": statistics([]), "calibration_cases": statistics([]), "repeats": groups,
        "bands": hits([]),
        "amounts": amount_errors([]),
        **statistics([0.0, 0.0]),
    }  # fmt: skip
    console = Console(record=True, width=200)
    for part in validation_report(suite):
        console.print(part)
    text = console.export_text()
    assert "20.0 %" in text
    assert "2 cases are repeats of 1 configuration:" in text
    assert "mape 20.8 %" in text
