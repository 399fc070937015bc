"""Popularity laws against draws and simulated caches, on small random cases."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from workloads.dlrm.laws.popularity import Popularity, scattered, uniform, zipf, zipf_touching

EXPONENTS = st.floats(0.0, 2.5)
ROWS = st.integers(1, 20_000)


def lru_misses(rows: np.ndarray, capacity: int) -> list[bool]:
    """Whether each lookup of ``rows [n]`` misses an LRU cache that starts empty."""
    held: OrderedDict[int, None] = OrderedDict()
    missed = []
    for row in rows.tolist():
        missed.append(row not in held)
        held[row] = None
        held.move_to_end(row)
        if len(held) > capacity:
            held.popitem(last=False)
    return missed


class Case(NamedTuple):
    """A law and a sequence drawn from it."""

    law: Popularity
    drawn: np.ndarray


def case(rows: int, exponent: float, seed: int, lookups: int) -> Case:
    law = zipf(rows, exponent)
    return Case(law, law.ranks(np.random.default_rng(seed).random(lookups)))


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(50, 5000), exponent=st.floats(0.0, 1.6), share=st.floats(0.02, 0.9), seed=st.integers(0, 99))
def test_hit_rates_are_those_of_a_simulated_lru_cache(rows: int, exponent: float, share: float, seed: int) -> None:
    law, drawn = case(rows, exponent, seed, 20_000)
    capacity = max(2, int(share * rows))
    missed = lru_misses(drawn, capacity)
    assert float(law.hit_rate(capacity, len(drawn))) == pytest.approx(1 - np.mean(missed), abs=0.02)


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(2, 5000), exponent=EXPONENTS, lookups=st.integers(1, 20_000), seed=st.integers(0, 99))
def test_distinct_rows_are_those_of_a_draw(rows: int, exponent: float, lookups: int, seed: int) -> None:
    law, drawn = case(rows, exponent, seed, lookups)
    found, expected = len(np.unique(drawn)), float(law.distinct(lookups))
    assert abs(found - expected) <= 5 * np.sqrt(expected) + 1  # the number of distinct rows varies less than Poisson's


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(100, 2000), exponent=st.floats(0.0, 1.5), share=st.floats(0.05, 0.8), seed=st.integers(0, 99))
def test_batches_fetch_what_a_simulated_cache_lacks(rows: int, exponent: float, share: float, seed: int) -> None:
    batch, batches, capacity = 200, 120, max(2, int(share * rows))
    law, drawn = case(rows, exponent, seed, batch * batches)
    held: OrderedDict[int, None] = OrderedDict()
    fetched = []
    for rows_of_batch in drawn.reshape(batches, batch):
        fetched.append(sum(row not in held for row in set(rows_of_batch.tolist())))
        for row in rows_of_batch.tolist():
            held[row] = None
            held.move_to_end(row)
        while len(held) > capacity:
            held.popitem(last=False)
    assume(len(np.unique(drawn[: len(drawn) // 2])) > capacity)  # else what is fetched then is still filling the cache
    settled = float(np.mean(fetched[batches // 2 :]))
    assert float(law.fetched(capacity, batch)) == pytest.approx(settled, rel=0.05, abs=3.0)


@settings(max_examples=40, deadline=None)
@given(rows=ROWS, exponent=EXPONENTS, blocks=st.integers(1, 64), order=st.sampled_from(["hashed", "popularity"]))
def test_blocks_share_all_lookups_and_all_distinct_rows(rows: int, exponent: float, blocks: int, order: str) -> None:
    law = zipf(rows, exponent, order)  # type: ignore[arg-type]
    size = -(-rows // blocks)
    edges = np.minimum(np.arange(blocks + 1) * size, rows)
    shares = law.block_shares(edges)
    assert shares.sum() == pytest.approx(1.0)
    assert np.all(shares >= -1e-12)
    assert law.block_distinct(edges, 1000.0).sum() == pytest.approx(float(law.distinct(1000.0)))


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(64, 5000), exponent=st.floats(0.0, 1.6), order=st.sampled_from(["hashed", "popularity"]))
def test_block_shares_are_those_of_a_draw(rows: int, exponent: float, order: str) -> None:
    law = zipf(rows, exponent, order)  # type: ignore[arg-type]
    positions = law.positions(law.ranks(np.random.default_rng(1).random(40_000)))
    edges = np.linspace(0, rows, 9).astype(np.int64)
    counted_shares = np.histogram(positions, edges)[0] / len(positions)
    assert law.block_shares(edges) == pytest.approx(counted_shares, abs=0.015)


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 3000))
def test_scattering_is_one_to_one(rows: int) -> None:
    assert np.array_equal(np.sort(scattered(np.arange(rows), rows)), np.arange(rows))


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(2, 10**9), lookups=st.floats(10.0, 1e8), ratio=st.floats(0.05, 1.0))
def test_a_law_is_found_that_touches_the_wanted_rows(rows: int, lookups: float, ratio: float) -> None:
    chance = float(uniform(rows).distinct(lookups))
    law = zipf_touching(rows, lookups, ratio * chance)
    steepest = float(zipf(rows, 8.0).distinct(lookups))
    assert float(law.distinct(lookups)) == pytest.approx(max(ratio * chance, steepest), rel=1e-6)


def test_uniform_caches_hit_by_their_share_of_the_rows() -> None:
    law = uniform(1_000_000)
    assert law.hit_rate(np.array([0.0, 250_000.0, 1e6, 2e6])) == pytest.approx([0.0, 0.25, 1.0, 1.0], abs=1e-6)
    assert law.hit_rate(1e6, 1e6) == pytest.approx(1 - (1 - np.exp(-1.0)), abs=1e-6)  # all misses are first touches


def test_zipf_of_a_billion_rows_follows_the_integral() -> None:
    law, first = zipf(10**9, 1.0), 10**6
    assert law.rows == 1e9
    share = float(np.interp(first, np.cumsum(law.count), np.cumsum(law.share)))
    assert share == pytest.approx(np.log(first + 1) / np.log(10**9 + 1), rel=1e-3)
