"""Time that the host of a virtual machine takes, from Linux's table."""

import os

import pytest

from trainer.process import steal_time
from trainer.process.steal_time import StolenTime, stolen_s

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
TABLE = """\
cpu  1 2 3 4 5 6 7 {both} 9 10
cpu0 1 2 3 4 5 6 7 {first} 9 10
cpu1 1 2 3 4 5 6 7 30 9 10
intr 1 2 3 4 5 6 7 8 9
"""


def written(file, first):
    file.write_text(TABLE.format(first=first, both=first + 30), encoding="ascii")
    return file


def test_time_that_the_host_took_of_some_cores_is_read(tmp_path):
    table = written(tmp_path / "stat", 800)
    assert stolen_s([0], table) == pytest.approx(800 / TICKS_PER_S)
    assert stolen_s([0, 1], table) == pytest.approx(830 / TICKS_PER_S)


def test_a_system_that_tells_nothing_took_nothing(tmp_path):
    table = tmp_path / "stat"
    table.write_text("cpu0 1 2 3 4\n", encoding="ascii")
    assert stolen_s([0], table) == stolen_s([0], tmp_path / "none") == 0.0


def test_a_share_is_of_the_time_since_it_was_last_asked(tmp_path, monkeypatch):
    now = iter([10.0, 12.0, 16.0])
    monkeypatch.setattr(steal_time.time, "perf_counter", lambda: next(now))
    table = written(tmp_path / "stat", 100)
    taken = StolenTime([0, 1], table)
    written(table, 100 + 3 * TICKS_PER_S + 2)
    assert taken.share() == pytest.approx(3 / (2 * 2)), "less a tick of each core"
    assert taken.share() == 0.0
