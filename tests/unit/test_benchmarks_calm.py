"""A study waits for cores that nobody takes away."""

import os
import time

import pytest

from benchmarks.calm import stolen_share, wait_for_calm
from trainer.pin import usable_cores
from validation.yardstick import MOST_STOLEN

CORE = usable_cores()[:1]


class Table:
    """What the system would tell of a core of which half the time is taken, until that stops."""

    def __init__(self, stops_after_s):
        self.begin, self.stops_after_s = time.perf_counter(), stops_after_s

    def read_text(self, encoding):
        stolen_s = 0.5 * min(time.perf_counter() - self.begin, self.stops_after_s)
        return f"cpu{CORE[0]} 0 0 0 0 0 0 0 {int(stolen_s * os.sysconf('SC_CLK_TCK'))} 0 0\n"


def test_the_share_of_a_busy_core_that_is_taken_is_told():
    assert stolen_share(CORE, 0.5, Table(1e9)) == pytest.approx(0.5, abs=0.1)


def test_nobody_waits_where_nothing_is_taken(tmp_path):
    begin = time.perf_counter()
    assert wait_for_calm(CORE, 60.0, 0.1, 30.0, tmp_path / "none") == 0.0
    assert time.perf_counter() - begin < 30.0


def test_a_spell_is_waited_for():
    table = Table(1.0)
    assert wait_for_calm(CORE, 120.0, 0.3, 0.2, table) <= MOST_STOLEN
    assert time.perf_counter() - table.begin > 1.0


def test_patience_ends():
    begin = time.perf_counter()
    assert wait_for_calm(CORE, 1.0, 0.3, 0.1, Table(1e9)) > MOST_STOLEN
    assert time.perf_counter() - begin < 60.0
