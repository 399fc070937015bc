"""Distinct rows against closed forms and against a second measured histogram."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from workloads.dlrm.laws.reuse import UNIFORM, distinct_rows, load_reuse


def test_the_measured_batch_gives_the_measured_fraction() -> None:
    """dlrm_datasets 2021: 468,084,223 lookups touch 61,644,628 rows in a batch of 65,536."""
    reuse = load_reuse("dlrm_datasets_2021")
    assert reuse is not None
    assert reuse.distinct_fraction(65536) == pytest.approx(61_644_628 / 468_084_223)


def test_two_years_agree_where_one_is_scaled_to_the_other() -> None:
    """2022's batch of 131,072 thinned to 65,536 is within 10 % of what 2021 measured there (0.122 against 0.132), and
    2021 extrapolated to 131,072 within 15 % of 2022 (0.088 against 0.078): different tables, so not equal."""
    one, two = load_reuse("dlrm_datasets_2021"), load_reuse("dlrm_datasets_2022")
    assert one is not None
    assert two is not None
    assert two.distinct_fraction(65536) == pytest.approx(one.distinct_fraction(65536), rel=0.10)
    assert one.distinct_fraction(131072) == pytest.approx(two.distinct_fraction(131072), rel=0.15)


def test_distinct_fraction_falls_with_the_batch_without_a_jump() -> None:
    """More samples repeat more; interpolation and extrapolation meet at the measured batch."""
    reuse = load_reuse("dlrm_datasets_2021")
    assert reuse is not None
    fractions = [reuse.distinct_fraction(b) for b in (1, 1000, 65535, 65536, 65537, 10**6)]
    assert all(a > b for a, b in itertools.pairwise(fractions))
    assert fractions[2] == pytest.approx(fractions[4], rel=1e-4)


def test_uniform_lookups_follow_the_occupancy_formula() -> None:
    """R (1 - (1 - 1/R)^n): 100 lookups into 100 rows touch 63.4 rows; 10 into a million touch nearly 10."""
    assert load_reuse(UNIFORM) is None
    found = distinct_rows(np.array([100.0, 1e6, 1.0]), np.array([100.0, 10.0, 50.0]), 100, None)
    assert found == pytest.approx([100 * (1 - 0.99**100), 10.0, 1.0], rel=1e-4)


def test_uniform_lookups_match_a_draw() -> None:
    """The formula is the mean of a draw: 5,000 lookups into 2,000 rows, within 3 % of one seeded draw."""
    draw = np.random.Generator(np.random.PCG64(7)).integers(0, 2000, 5000)
    expected = distinct_rows(np.array([2000.0]), np.array([5000.0]), 1, None)[0]
    assert len(np.unique(draw)) == pytest.approx(expected, rel=0.03)


def test_measured_reuse_never_touches_more_rows_than_a_table_has() -> None:
    """A table of 3 rows has 3 distinct rows at most, whatever the measured fraction says."""
    found = distinct_rows(np.array([3.0]), np.array([1e6]), 65536, load_reuse("dlrm_datasets_2021"))
    assert found[0] <= 3.0
