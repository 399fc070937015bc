"""Errors by configuration, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from validation.suites.configurations import by_configuration, statistics_of

INPUTS = {"model": "m", "world_size": 8, "cluster": "c", "framework": "f"}


def case(error_pct: float | None, **changes: Any) -> dict[str, Any]:
    known = {"id": "a", "role": "validation", "grade": "read", "metric": "iteration_time_s", "inputs": INPUTS}
    return known | {"error_pct": error_pct} | changes


def test_three_submissions_weigh_as_much_as_one() -> None:
    """Errors 10, -20 and 0 are one configuration of 10 % and -3.3 %; with one of -40 %: 25 % and -21.7 %."""
    other = case(-40.0, inputs=INPUTS | {"world_size": 16})
    found = by_configuration([case(10.0), case(-20.0), case(0.0), other])
    assert [(row["configuration"], row["cases"]) for row in found] == [("m on 8 of c, f", 3), ("m on 16 of c, f", 1)]
    assert found[0]["mape_pct"] == pytest.approx(10)
    assert found[0]["bias_pct"] == pytest.approx(-10 / 3)
    together = statistics_of(found)
    assert together["configurations"] == 2
    assert together["mape_pct"] == pytest.approx(25)
    assert together["bias_pct"] == pytest.approx((-10 / 3 - 40) / 2)
    assert together["worst_pct"] == pytest.approx(-40)


def test_what_differs_in_batch_or_precision_alone_is_one_configuration() -> None:
    found = by_configuration([case(1.0), case(3.0, inputs=INPUTS | {"global_batch_size": 1024, "settings": ["x=1"]})])
    assert [row["cases"] for row in found] == [2]


@pytest.mark.parametrize("changes", [{"grade": "memory"}, {"error_pct": None}])
def test_recalled_rows_and_bands_do_not_count(changes: dict[str, Any]) -> None:
    assert by_configuration([case(1.0) | changes]) == []
    assert statistics_of([])["mape_pct"] is None


def test_a_collective_is_one_configuration_at_all_sizes() -> None:
    row = {"inputs": {"cluster": "c", "bytes": 8}, "interval": {"configuration": "source all_reduce 1x8"}}
    found = by_configuration([case(5.0) | row, case(-7.0) | row])
    assert [(of["configuration"], of["cases"]) for of in found] == [("source all_reduce 1x8", 2)]
