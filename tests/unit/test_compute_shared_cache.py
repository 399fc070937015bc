"""How ranks divide a cache among them: closed forms, properties, and a cache that is simulated row by row."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.compute.shared_cache import parts
from simulator.operators import Misses

SIZES = np.array([0.0, *(2.0 ** np.arange(11))])
"""Sizes of caches, rows."""


def uniform(rows, lookups):
    """What misses of lookups of any row alike, each a byte long, by what a cache holds ``[G, P]``."""
    held = np.minimum(1.0, SIZES[:, None] / np.asarray(rows))
    return Misses(SIZES, np.asarray(lookups) * (1.0 - held))


def test_ranks_that_miss_alike_have_equal_parts():
    assert parts(uniform([64.0, 64.0], [10.0, 10.0]), 0.0, 16.0, 2) == pytest.approx([16.0, 16.0])


def test_one_amount_for_all_is_one_part_for_all():
    alike = Misses(SIZES, 10.0 * (1.0 - np.minimum(1.0, SIZES / 64.0)))
    assert parts(alike, 0.0, 16.0, 2) == 16.0
    assert parts(uniform([64.0], [10.0]), 0.0, 16.0, 1) == 16.0


def test_a_rank_whose_rows_all_fit_leaves_the_rest_to_the_other():
    small, large = parts(uniform([8.0, 1024.0], [1000.0, 1000.0]), 0.0, 64.0, 2)
    assert 6.0 < small < 12.0
    assert small + large == pytest.approx(128.0)


def test_what_passes_through_takes_its_part():
    nothing = Misses(SIZES, np.zeros((len(SIZES), 2)))
    assert parts(nothing, np.array([30.0, 10.0]), 16.0, 2) == pytest.approx([24.0, 8.0])


def test_ranks_of_other_caches_have_no_say():
    found = parts(uniform([64.0, 512.0, 64.0, 64.0], [10.0, 90.0, 10.0, 10.0]), 0.0, 16.0, 2)
    assert found[:2] == pytest.approx(parts(uniform([64.0, 512.0], [10.0, 90.0]), 0.0, 16.0, 2))
    assert found[2:] == pytest.approx([16.0, 16.0])


@given(
    st.lists(st.tuples(st.floats(1.0, 900.0), st.floats(0.0, 1e6)), min_size=2, max_size=6),
    st.floats(0.0, 1e3),
    st.floats(0.1, 200.0),
)
def test_parts_are_all_there_is(ranks, passed, equal):
    rows, lookups = zip(*ranks, strict=True)
    found = parts(uniform(rows, lookups), passed, equal, len(ranks))
    assert np.all(found >= 0.0)
    assert np.sum(found) == pytest.approx(equal * len(ranks))


@pytest.mark.parametrize(("rows", "each"), [((200, 200), (1, 3)), ((16, 600), (2, 1)), ((500, 100), (3, 2))])
def test_a_simulated_cache_is_divided_so(rows, each):
    """Lookups of two ranks by turns, so many of each, in one cache that drops what was used longest ago."""
    capacity, random, cache, held = 128, np.random.default_rng(7), OrderedDict(), []
    for turn in range(6000):
        for rank in (0, 1):
            for row in random.integers(rows[rank], size=each[rank]).tolist():
                cache[rank, row] = None
                cache.move_to_end((rank, row))
                if len(cache) > capacity:
                    cache.popitem(last=False)
        if turn >= 2000 and turn % 20 == 0:
            held.append(np.bincount([rank for rank, _ in cache], minlength=2))
    found = parts(uniform(rows, each), 0.0, capacity / 2, 2)
    assert found == pytest.approx(np.mean(held, axis=0), abs=0.05 * capacity)
    assert abs(found[0] - found[1]) > 0.15 * capacity


def test_the_last_node_may_have_fewer_ranks():
    rows, lookups = [64.0, 512.0, 64.0, 64.0, 512.0], [10.0, 90.0, 10.0, 10.0, 90.0]
    found = parts(uniform(rows, lookups), 0.0, 16.0, 3)
    assert found[:3] == pytest.approx(parts(uniform(rows[:3], lookups[:3]), 0.0, 16.0, 3))
    assert found[3:] == pytest.approx(parts(uniform(rows[3:], lookups[3:]), 0.0, 16.0, 2))


@given(st.lists(st.floats(0.0, 2000.0), min_size=3, max_size=3))
def test_what_misses_is_looked_up_for_each_rank(sizes):
    missed = uniform([8.0, 100.0, 1024.0], [10.0, 20.0, 30.0])
    each = [missed.at(size)[rank] for rank, size in enumerate(sizes)]
    assert missed.at(np.array(sizes)) == pytest.approx(each)
    alike = Misses(SIZES, missed.bytes[:, 1])
    assert alike.at(np.array(sizes)) == pytest.approx([alike.at(size) for size in sizes])
