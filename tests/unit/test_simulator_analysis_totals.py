"""Sums over ranks beyond 64 bits."""

import numpy as np
import pytest

from simulator.analysis import Breakdown, Window, imbalance
from simulator.analysis.summary import breakdown_summary
from simulator.analysis.totals import total_ps

SECONDS_PS = 10**13


@pytest.mark.parametrize("value", [0, 1, -1, 2**31, 2**32 + 5, SECONDS_PS, -SECONDS_PS])
def test_a_total_is_exact(value):
    assert total_ps(np.full(1_000_003, value)) == 1_000_003 * value


def test_a_million_ranks_of_ten_seconds_have_means_and_fractions():
    times, nothing = np.full(1 << 20, SECONDS_PS), np.zeros(1 << 20, dtype=np.int64)
    found = Breakdown(Window(0, 0, SECONDS_PS), np.arange(1 << 20), times, *[nothing] * 8)
    assert breakdown_summary(found)["fractions"]["compute"] == 1.0
    assert breakdown_summary(found)["compute_s"]["mean"] == 10.0
    assert imbalance(found) == 1.0
