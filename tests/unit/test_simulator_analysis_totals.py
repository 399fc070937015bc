"""Sums over ranks beyond 64 bits."""

import numpy as np
import pytest

from simulator.analysis.summary import breakdown_summary, imbalance
from simulator.analysis.totals import total_ps
from tests.unit.test_simulator_analysis_summary import breakdown_of

SECONDS_PS = 10**13


@pytest.mark.parametrize("value", [0, 1, -1, 2**31, 2**32 + 5, SECONDS_PS, -SECONDS_PS])
def test_a_total_is_exact(value):
    assert total_ps(np.full(1_000_003, value)) == 1_000_003 * value


def test_a_million_ranks_of_ten_seconds_have_means_and_fractions():
    found = breakdown_of(np.full(1 << 20, SECONDS_PS))
    assert breakdown_summary(found)["fractions"]["compute"] == 1.0
    assert breakdown_summary(found)["compute_s"]["mean"] == 10.0
    assert imbalance(found) == 1.0
