"""Whatever the skew, no lookup is lost: what ranks send is what owners look up, and hot rows are where they stand."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workload_jobs import context_for, settings_for
from workloads.dlrm.iteration.embeddings import EmbeddingGroup, embedding_groups
from workloads.dlrm.laws.index_laws import Indices, make_law
from workloads.dlrm.laws.pooling import PoolingSpread
from workloads.dlrm.model.batch_contents import batch_lookups
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.composing import compose
from workloads.dlrm.sharding.options import Option

RANKS = 8
LAWS = st.one_of(
    st.just(Indices(distribution="uniform")),
    st.builds(
        Indices,
        distribution=st.just("zipf"),
        exponent=st.floats(0.1, 1.5),
        order=st.sampled_from(["hashed", "popularity"]),
    ),
    st.builds(Indices, distribution=st.just("zipf"), unique_ratio=st.floats(0.01, 1.0)),
    st.just(Indices(distribution="reuse", histogram="dlrm_datasets_2021")),
)
SPREADS = st.sampled_from(
    [
        None,
        PoolingSpread(distribution="fixed"),
        PoolingSpread(distribution="poisson"),
        PoolingSpread(distribution="geometric"),
        PoolingSpread(distribution="lognormal", deviation=1.5),
    ]
)
KINDS = ("table_wise", "column_wise", "row_wise", "table_row_wise", "grid_shard", "data_parallel")


@st.composite
def tables_of(draw: st.DrawFn) -> Tables:
    """A few tables of any size."""
    count = draw(st.integers(1, 5))
    spread = draw(SPREADS)
    each = np.ones(count, dtype=np.int64)
    return Tables(
        names=tuple(f"t{i}" for i in range(count)),
        rows=np.array(draw(st.lists(st.integers(1, 5000), min_size=count, max_size=count)), dtype=np.int64),
        dim=64 * each,
        pooling_factor=np.array(draw(st.lists(st.floats(0.5, 60.0), min_size=count, max_size=count))),
        element_bytes=2 * each,
        features=each,
        pooling=() if spread is None else (spread,) * count,
    )


def total(amount: Any) -> float:
    return float(np.broadcast_to(amount, RANKS).sum())


def group_of(tables: Tables, kind: str, law: Indices, seed: int = 0) -> EmbeddingGroup:
    job = replace(settings_for("zionex_i", RANKS, local_world_size=4), indices=make_law(law), seed=seed)
    pieces = 2 if kind in ("column_wise", "grid_shard") else 1
    options = [Option(kind, pieces)] * len(tables)  # type: ignore[arg-type]
    return embedding_groups(compose(tables, context_for(tables, job, 1e12), options, kind), job)[0]


@settings(max_examples=60, deadline=None)
@given(tables=tables_of(), law=LAWS, kind=st.sampled_from(KINDS), seed=st.integers(0, 9))
def test_no_lookup_is_lost(tables: Tables, law: Indices, kind: str, seed: int) -> None:
    """Lookups on the ranks are the batch's, once per column range; owners are sent exactly their lookups."""
    group = group_of(tables, kind, law, seed)
    job = replace(settings_for("zionex_i", RANKS, local_world_size=4), seed=seed)
    repeats = 2 if kind in ("column_wise", "grid_shard") else 1
    assert total(group.lookup.lookups) == pytest.approx(batch_lookups(tables, job).sum() * repeats, rel=1e-9)
    if group.values is not None:
        assert total(group.values.bytes) == pytest.approx(total(group.lookup.lookups) * job.index_bytes, rel=1e-9)
        assert group.values.receive_weights is not None
        served = np.broadcast_to(group.lookup.lookups, RANKS)
        assert group.values.receive_weights == pytest.approx(served, rel=1e-9)
    assert np.all(np.broadcast_to(group.update.unique_rows, RANKS) <= np.broadcast_to(group.lookup.lookups, RANKS) + 1)


@settings(max_examples=40, deadline=None)
@given(tables=tables_of(), law=LAWS, kind=st.sampled_from(KINDS))
def test_caches_only_help(tables: Tables, law: Indices, kind: str) -> None:
    """Without a cache every row comes from memory; the larger the cache the fewer, never fewer than distinct rows."""
    group = group_of(tables, kind, law)
    assert group.lookup.missed is not None
    found = [total(group.lookup.missed.at(size)) for size in (0.0, 1e6, 4e6, 5e7, 1e9)]
    assert found[0] == pytest.approx(total(group.lookup.row_bytes), rel=1e-9)
    assert all(a >= b * (1 - 1e-9) for a, b in itertools.pairwise(found))
    assert found[-1] > 0.0


@pytest.mark.parametrize("kind", ["row_wise", "table_row_wise", "grid_shard"])
def test_ordered_ids_put_the_lookups_on_the_first_rank(kind: str) -> None:
    """By hand: Zipf with exponent 1 over 8,000 rows; the first of B blocks has ln(8000 / B + 1) / ln(8001)."""
    tables = Tables(("t",), *(np.array([n]) for n in (8000, 64)), np.array([10.0]), np.array([2]), np.array([1]))
    law = Indices(distribution="zipf", exponent=1.0, order="popularity")
    served = np.broadcast_to(group_of(tables, kind, law).lookup.lookups, RANKS)
    blocks = RANKS if kind == "row_wise" else 4
    holders = served[served > 0]
    assert holders.max() * (len(holders) / blocks) / served.sum() == pytest.approx(
        np.log(8000 / blocks + 1) / np.log(8001), rel=1e-3
    )


def test_hashed_ids_spread_all_but_the_hottest_rows() -> None:
    """A steep law still has one rank that serves the hottest row; a flat one is even to within a percent."""
    tables = Tables(("t",), *(np.array([n]) for n in (80_000, 64)), np.array([10.0]), np.array([2]), np.array([1]))
    flat = group_of(tables, "row_wise", Indices(distribution="zipf", exponent=0.3)).lookup.lookups
    steep = group_of(tables, "row_wise", Indices(distribution="zipf", exponent=1.3)).lookup.lookups
    assert np.max(flat) / np.mean(flat) == pytest.approx(1.0, abs=0.01)
    assert np.max(steep) / np.mean(steep) > 2.0


@settings(max_examples=20, deadline=None)
@given(mean=st.floats(0.5, 60.0), seed=st.integers(0, 50))
def test_lookups_of_ranks_vary_as_their_bags_do(mean: float, seed: int) -> None:
    """Over 4,096 ranks mean and standard deviation of the sums are those of the bags, within 5 standard errors."""
    spread = PoolingSpread(distribution="geometric")
    tables = Tables(
        ("t",), *(np.array([n]) for n in (1000, 64)), np.array([mean]), np.array([2]), np.array([1]), pooling=(spread,)
    )
    job = replace(settings_for("zionex_i", 4096), seed=seed)
    drawn = batch_lookups(tables, job)[0]
    expected, variance = mean * job.local_batch_size, job.local_batch_size * mean * (1 + mean)
    assert drawn.mean() == pytest.approx(expected, abs=5 * np.sqrt(variance / 4096))
    assert drawn.std() == pytest.approx(np.sqrt(variance), rel=5 / np.sqrt(2 * 4096))
