"""Rows that studies keep."""

import pytest

from benchmarks.accuracy_table import _iterations
from benchmarks.rows import append, read
from inputs.errors import InputError


def test_rows_are_appended_below_one_header(tmp_path):
    file = tmp_path / "made" / "rows.csv"
    append(file, [{"a": "1", "b": "x y"}, {"a": "2", "b": ""}])
    append(file, [{"a": "3", "b": "z"}])
    assert read(file) == (["a", "b"], [{"a": "1", "b": "x y"}, {"a": "2", "b": ""}, {"a": "3", "b": "z"}])


def test_rows_with_other_columns_are_refused(tmp_path):
    file = tmp_path / "rows.csv"
    append(file, [{"a": "1"}])
    with pytest.raises(InputError, match="another version"):
        append(file, [{"a": "1", "b": "2"}])
    assert file.read_text() == "a\n1\n"


def test_errors_are_told_by_ranks_and_without_the_yardstick():
    """Two launches of 2 s and 4 s, predicted 2.2 s."""
    row = {"ranks": "2", "iteration_error_pct": "10.0", "iteration_predicted_s": "2.2", "iterations_s": "2.0 4.0"}
    found = {told.name: told.value for told in _iterations([row, {**row, "iteration_error_pct": "-20.0"}])}
    assert found["iteration_2_ranks"] == 2
    assert found["iteration_2_ranks_mape"] == pytest.approx(15.0)
    assert found["iteration_2_ranks_bias"] == pytest.approx(-5.0)
    assert found["iteration_2_ranks_geomean"] == pytest.approx(200**0.5)
    assert found["iteration_without_yardstick_bias"] == pytest.approx(100 * (2.2 / 3.0 - 1))
