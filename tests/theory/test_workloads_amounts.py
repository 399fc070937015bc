"""Amounts of the shipped models against published numbers and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from tests.workload_jobs import job_of, settings_for
from workloads.dlrm.model.dense import dense_part
from workloads.dlrm.model.model import load_model
from workloads.dlrm.model.tables import expand_tables, maximum_entropy
from workloads.graph.buckets import gradient_buckets


@pytest.mark.parametrize(
    ("name", "parameters", "mflop"),
    [("zionex_a", 793e9, 638.0), ("zionex_i", 332e9, 60.0)],
)
def test_published_size_and_arithmetic(name: str, parameters: float, mflop: float) -> None:
    """arXiv 2104.05158 table 3: 793B parameters and 638 MFLOP per sample for A, 332B and 60 for I (rounded there)."""
    model = load_model(name)
    tables = expand_tables(model)
    assert tables.parameters == pytest.approx(parameters, rel=1e-6)
    assert dense_part(model, tables).flops_per_sample / 1e6 == pytest.approx(mflop, rel=0.002)


def test_tables_of_model_a_have_the_published_dimensions() -> None:
    """arXiv 2104.05158 table 3: dimensions in [4, 384], 93 on average; mean pooling 15. Multiples of 4 as in FBGEMM."""
    tables = expand_tables(load_model("zionex_a"))
    assert len(tables) == 1000
    assert tables.dim.min() >= 4
    assert tables.dim.max() <= 384
    assert tables.dim.mean() == pytest.approx(93, abs=0.1)
    assert np.all(tables.dim % 4 == 0)
    assert tables.pooling_factor.mean() == pytest.approx(15, rel=1e-9)


def test_mlperf_model_is_the_criteo_benchmark() -> None:
    """26 tables with 187,767,399 rows of 128 in all; MLPs 13-512-256-128 and 479-1024-1024-512-256-1.

    479 = 128 + 27 * 26 / 2 is the width the benchmark's top MLP has; its 2,361,601 dense parameters follow by hand.
    """
    model = load_model("mlperf_dlrm_v1")
    tables = expand_tables(model)
    part = dense_part(model, tables)
    assert len(tables) == 26
    assert tables.rows.sum() == 187_767_399
    assert [layer.inputs for layer in part.layers] == [13, 512, 256, 479, 1024, 1024, 512, 256]
    bottom = 13 * 512 + 512 + 512 * 256 + 256 + 256 * 128 + 128
    top = 479 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 512 + 512 + 512 * 256 + 256 + 256 + 1
    assert part.parameters == bottom + top


def test_all_to_all_and_all_reduce_volumes_of_model_a() -> None:
    """By hand: 512 x 93,000 x 2 B = 95 MB sent per rank and direction; 20 layers of 3994 x 3995 fp32 = 1.28 GB."""
    job = job_of("zionex_a", 128)
    (group,) = job.groups
    (forward,), (backward,) = group.forward, group.backward
    assert float(np.mean(forward.bytes)) == pytest.approx(512 * 93_000 * 2, rel=0.001)
    assert float(np.mean(backward.bytes)) == pytest.approx(512 * 93_000 * 2, rel=0.001)
    assert sum(b.bytes for b in job.buckets) == 20 * 3994 * 3995 * 4


def test_all_to_all_volume_of_model_i() -> None:
    """By hand: 512 samples x 512 tables x 92 x 2 B = 48.2 MB; 512 x 512 x 70 indices of 4 B = 73.4 MB."""
    (group,) = job_of("zionex_i", 128).groups
    (forward,) = group.forward
    assert group.values is not None
    assert float(np.mean(forward.bytes)) == pytest.approx(48.23e6, rel=1e-3)
    assert float(np.mean(group.values.bytes)) == pytest.approx(73.4e6, rel=1e-3)


def test_lookups_of_the_whole_job_do_not_depend_on_the_sharding() -> None:
    """Every sample looks up pooling_factor rows of each table, wherever the table is (columns repeat lookups)."""
    tables = expand_tables(load_model("zionex_i"))
    expected = 65536 * tables.pooling_factor.sum()
    for planner in ("table_wise", "row_wise"):
        lookup = job_of("zionex_i", 128, planner).groups[0].lookup
        total = np.broadcast_to(lookup.lookups, 128).sum()
        assert total == pytest.approx(expected, rel=1e-9), planner


def test_embedding_update_moves_what_the_optimizer_needs() -> None:
    """Per distinct row of dimension D: state read and written is 8 B (row-wise Adagrad), 8 D (Adagrad), 0 (SGD);
    weights 2 D x 2 B in fp16 (software facts, FBGEMM)."""
    moved = {}
    for optimizer in ("sgd", "adagrad", "rowwise_adagrad"):
        update = job_of("zionex_i", 128, "table_wise", table_optimizer=optimizer).groups[0].update
        rows = np.broadcast_to(update.unique_rows, 128)
        moved[optimizer] = np.broadcast_to(update.state_bytes, 128) / rows
        assert np.broadcast_to(update.weight_bytes, 128) / rows == pytest.approx(2 * 92 * 2)
    assert moved["sgd"] == pytest.approx(0)
    assert moved["adagrad"] == pytest.approx(8 * 92)
    assert moved["rowwise_adagrad"] == pytest.approx(8)


def test_gemm_flops_of_an_iteration_are_three_forward_passes() -> None:
    """Backward has two GEMMs per layer, except the first layer, whose inputs need no gradient; widths padded to 8."""
    from simulator.operators import Gemm
    from tests.workload_jobs import graph_of

    program = graph_of("zionex_a", 128).programs[0]
    flops = sum(2.0 * w.m * w.n * w.k for w in program.work if isinstance(w, Gemm))
    layer = 2.0 * 512 * 4000 * 4000
    assert flops == pytest.approx(layer * (3 * 20 - 1))


def test_buckets_close_when_they_reach_their_limit() -> None:
    """pytorch c10d/reducer.cpp: a bucket is closed once its size reaches the limit; the first limit is smaller."""
    layers = [(name, 1000) for name in "abcdefg"]  # 4000 B each
    buckets = gradient_buckets(layers, first_bytes=4000, cap_bytes=10_000)
    assert [(b.ready_after, b.bytes) for b in buckets] == [("a", 4000), ("d", 12_000), ("g", 12_000)]


@pytest.mark.parametrize("mean", [20.0, 93.0, 194.0, 300.0])
def test_maximum_entropy_sample_has_the_mean_and_the_range(mean: float) -> None:
    """The rate is solved on the sample itself, so its mean is exact; values stay inside the range, ascending."""
    values = maximum_entropy(500, 4, 384, mean)
    assert values.mean() == pytest.approx(mean, rel=1e-9)
    assert values.min() > 4
    assert values.max() < 384
    assert np.all(np.diff(values) > 0)


def test_maximum_entropy_is_exponential_when_the_range_is_wide() -> None:
    """Far from the upper end the maximum-entropy distribution is exponential: its median is ln 2 times the mean."""
    values = maximum_entropy(10_001, 0.0, 1e4, 10.0)
    assert np.median(values) == pytest.approx(10.0 * np.log(2), rel=1e-3)


def test_local_batch_follows_from_the_global_one() -> None:
    """65,536 samples over 128 ranks are 512 each, the published local batch of model A."""
    assert settings_for("zionex_a", 128).local_batch_size == 512
