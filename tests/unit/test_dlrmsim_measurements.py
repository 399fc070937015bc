"""What the system tells of a machine while it is measured."""

import os

import pytest

from dlrmsim.measurements import stolen_s


def test_time_that_the_host_took_is_read(tmp_path):
    table = tmp_path / "stat"
    table.write_text("cpu  1 2 3 4 5 6 7 800 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n", encoding="ascii")
    assert stolen_s(table) == pytest.approx(800 / os.sysconf("SC_CLK_TCK"))
    table.write_text("cpu  1 2 3 4\n", encoding="ascii")
    assert stolen_s(table) == stolen_s(tmp_path / "none") == 0.0
