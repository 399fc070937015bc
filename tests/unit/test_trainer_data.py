"""The data that ranks train on: addressed by position, so that any number of ranks has the same; with a signal."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

torch = pytest.importorskip("torch")

from inputs.errors import InputError  # noqa: E402
from tests.trainer_jobs import TABLES, graded, model, planned, scenario, write  # noqa: E402 - needs torch
from trainer.criteo import CATEGORIES, COUNTS, SAMPLE, Criteo  # noqa: E402
from trainer.draws import Purpose, bits, uniforms  # noqa: E402
from trainer.job import read_job  # noqa: E402
from trainer.layout import placement  # noqa: E402
from trainer.synthetic import Synthetic  # noqa: E402
from workloads.dlrm.laws.index_laws import make_law  # noqa: E402
from workloads.dlrm.laws.popularity import zipf  # noqa: E402
from workloads.dlrm.laws.reuse import load_reuse  # noqa: E402
from workloads.dlrm.rows.traffic import popularity_of  # noqa: E402


@settings(deadline=None)
@given(start=st.integers(0, 1000), count=st.integers(0, 50), iteration=st.integers(0, 2**40), item=st.integers(0, 999))
def test_a_slice_of_draws_is_that_of_the_whole(start, count, iteration, item):
    whole = bits(5, Purpose.INDICES, item, iteration, 0, start + count)
    assert np.array_equal(bits(5, Purpose.INDICES, item, iteration, start, count), whole[start:])


def test_purposes_items_iterations_and_seeds_share_no_draws():
    draws = [
        bits(*key, 0, 64)
        for key in [(1, Purpose.LABELS, 0, 0), (1, Purpose.INDICES, 0, 0), (1, Purpose.LABELS, 1, 0),
                    (1, Purpose.LABELS, 0, 1), (2, Purpose.LABELS, 0, 0)]
    ]  # fmt: skip
    assert len(np.unique(np.concatenate(draws))) == 5 * 64


def test_draws_are_uniform():
    assert stats.kstest(uniforms(3, Purpose.LABELS, 0, 0, 0, 20_000), "uniform").pvalue > 0.001


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0, 1.3])
def test_popularity_follows_the_power_law(exponent):
    """Frequencies of popularity ranks against the law integrated by hand: chi-square over 20 ranks."""
    ranks = zipf(20, exponent).ranks(uniforms(1, Purpose.INDICES, 0, 0, 0, 100_000))
    edges = np.arange(1, 22, dtype=float)
    area = np.diff(np.log(edges) if exponent == 1 else edges ** (1 - exponent) / (1 - exponent))
    counts = np.bincount(ranks, minlength=20)
    assert stats.chisquare(counts, area / area.sum() * len(ranks)).pvalue > 0.001


@pytest.mark.parametrize(("rows", "lookups"), [(200_000, 100_000), (5_000_000, 400_000), (900, 50_000)])
def test_the_exponent_gives_the_distinct_rows_that_the_simulator_counts(rows, lookups):
    """Measured reuse says how many distinct rows a batch touches; indices drawn with the exponent touch as many."""
    reuse, samples = load_reuse("dlrm_datasets_2021"), 2048.0
    law = make_law("dlrm_datasets_2021").popularity(rows, lookups, samples)
    touched = len(np.unique(law.ranks(uniforms(1, Purpose.INDICES, 0, 0, 0, lookups))))
    assert touched == pytest.approx(float(law.distinct(lookups)), rel=0.02)
    chance = rows * -np.expm1(lookups * np.log1p(-1 / rows))
    assert touched == pytest.approx(min(chance, lookups * reuse.distinct_fraction(samples)), rel=0.02)


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_together_have_the_batch_of_one(tmp_path, ranks):
    alone = Synthetic(read_job(write(tmp_path / "1", scenario(1))), 0).batch(3)
    parts = [Synthetic(read_job(write(tmp_path / "n", scenario(ranks))), rank).batch(3) for rank in range(ranks)]
    assert torch.equal(torch.cat([part.dense for part in parts]), alone.dense)
    assert torch.equal(torch.cat([part.labels for part in parts]), alone.labels)
    assert torch.equal(torch.cat([part.lengths for part in parts], 1), alone.lengths)
    for feature in range(len(alone.lengths)):
        assert torch.equal(torch.cat([part.of_feature(feature) for part in parts]), alone.of_feature(feature))


def test_batches_have_the_models_lookups(tmp_path):
    """The mean length is the pooling factor (5 sigma of a Bernoulli part), rows are in range, batches differ."""
    content = scenario(1, global_batch_size=4096)
    job = read_job(write(tmp_path, content))
    batch, other = Synthetic(job, 0).batch(0), Synthetic(job, 0).batch(1)
    tables = job.plan.tables
    features = list(job.table_of_feature)
    expected = tables.pooling_factor[features]
    assert batch.lengths.double().mean(1).numpy() == pytest.approx(expected, abs=5 * 0.5 / 64)
    for feature, rows in enumerate(tables.rows[features]):
        values = batch.of_feature(feature)
        assert len(values) == batch.lengths[feature].sum()
        assert values.min() >= 0
        assert values.max() < rows
    assert not torch.equal(batch.dense, other.dense)
    assert batch.dense.double().var().item() == pytest.approx(1, abs=0.05)
    assert 0.3 < batch.labels.mean() < 0.7


@pytest.mark.parametrize("order", ["hashed", "popularity"])
def test_batches_follow_the_laws_that_the_simulator_counts_with(tmp_path, order):
    """Of a Zipf law and geometric bags: lookups per eighth of each table (5 sigma), bag lengths (5 standard errors)."""
    law = {"distribution": "zipf", "exponent": 1.2, "order": order}
    changed = model(index_reuse=graded(law), pooling_spread=graded({"distribution": "geometric"}))
    job = read_job(write(tmp_path, scenario(1, model=changed, global_batch_size=8192)))
    batch, tables = Synthetic(job, 0).batch(0), job.plan.tables
    for feature, table in enumerate(job.table_of_feature):
        values, rows = batch.of_feature(feature).numpy(), int(tables.rows[table])
        edges = np.unique(np.linspace(0, rows, 9).astype(np.int64))
        shares = popularity_of(tables, job.settings, table).block_shares(edges)
        counts = np.histogram(values, edges)[0]
        assert np.all(np.abs(counts - shares * len(values)) <= 5 * np.sqrt(shares * len(values)) + 1)
        mean = float(tables.pooling_factor[table])
        drawn = batch.lengths[feature].double()
        assert drawn.mean().item() == pytest.approx(mean, abs=5 * np.sqrt(mean * (1 + mean) / 8192))
        assert drawn.var().item() == pytest.approx(mean * (1 + mean), rel=0.2)


def criteo_job(tmp_path, **workload):
    tables = [{"rows": 50, "dim": 4, "pooling_factor": 1.0, "count": CATEGORIES}]
    mlp = {"dense_features": graded(COUNTS), "bottom": graded([4]), "top": graded([1])}
    plan = planned(2, {f"table_{i}": {"sharding_type": "data_parallel"} for i in range(CATEGORIES)})
    changes = {"model": model(tables=graded(tables), mlp=mlp), "sharding": {"plan": plan}, "global_batch_size": 6}
    return read_job(write(tmp_path, scenario(2, **(changes | workload))))


def test_the_shipped_sample_has_both_labels_and_misses_values():
    lines = SAMPLE.read_text(encoding="utf-8")
    assert 0.1 < np.mean([line[0] == "1" for line in lines.splitlines()]) < 0.6
    assert any("\t\t" in line for line in lines.splitlines()), "some values are missing"


def test_criteo_lines_become_batches_in_order_and_start_again(tmp_path):
    """13 lines in batches of 6: the last line fills none, so the third batch is the first again."""
    lines = [
        "\t".join([str(i % 2), *["" if c == 1 else str(i) for c in range(COUNTS)], *["1f"] * 25, f"{i:x}"])
        for i in range(13)
    ]
    file = tmp_path / "clicks.tsv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    job = criteo_job(tmp_path)
    first, second = Criteo(file, job, 0), Criteo(file, job, 1)
    numbers = [part.of_feature(25).tolist() for i in range(3) for part in (first.batch(i), second.batch(i))]
    assert numbers == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11], [0, 1, 2], [3, 4, 5]]
    again = Criteo(file, job, 1).batch(1)
    assert again.labels.tolist() == [1, 0, 1]
    assert again.dense[:, 0].tolist() == pytest.approx(np.log([10, 11, 12]))
    assert again.dense[:, 1].tolist() == [0, 0, 0], "a missing count is 0"
    assert again.of_feature(0).tolist() == [0x1F % 50] * 3


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1\t2\t3", "given '3 fields'"),
        ("2" + "\t1" * 39, "a label 0 or 1"),
        ("0" + "\tzz" * 39, "hexadecimal"),
        ("0" + "\t1" * 38 + "\t" + "f" * 20, "hexadecimal"),
        ("0" + "\t1" * 38 + "\t-1f", "hexadecimal"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, expected):
    good = "0" + "\t1" * 39
    file = tmp_path / "clicks.tsv"
    file.write_text("\n".join([good] * 4 + [line, good]) + "\n", encoding="utf-8")
    source = Criteo(file, criteo_job(tmp_path), 1)
    with pytest.raises(InputError, match=expected) as caught:
        source.batch(0)
    assert (caught.value.file, caught.value.line) == (file, 5)


def test_a_model_of_another_shape_a_short_file_and_no_file_are_refused(tmp_path):
    with pytest.raises(InputError, match="does not go with the model tiny"):
        Criteo(SAMPLE, read_job(write(tmp_path, scenario(1))), 0)
    with pytest.raises(InputError, match="less than one global batch"):
        Criteo(SAMPLE, criteo_job(tmp_path, global_batch_size=1000), 0)
    with pytest.raises(InputError, match="cannot be read"):
        Criteo(Path("nowhere.tsv"), criteo_job(tmp_path), 0)


def test_rows_cut_within_one_of_several_nodes_are_refused(tmp_path):
    tables = {f"table_{i}": {"sharding_type": "table_row_wise", "ranks": [2, 3]} for i in range(len(TABLES))}
    content = scenario(4, sharding={"plan": planned(4, tables) | {"local_world_size": 2}})
    with pytest.raises(InputError, match="does not cut rows within one of several nodes; given 'table_row_wise'"):
        read_job(write(tmp_path, content))


def test_a_node_of_one_rank_holds_all_rows(tmp_path):
    tables = {f"table_{i}": {"sharding_type": "table_row_wise", "ranks": [i % 2]} for i in range(len(TABLES))}
    job = read_job(write(tmp_path, scenario(2, sharding={"plan": planned(2, tables) | {"local_world_size": 1}})))
    held = [[piece.table for block in blocks for piece in block.pieces] for blocks in placement(job, "column")]
    assert held == [[0, 2, 4], [1, 3, 5]]
    assert not any(placement(job, "row_wise"))


def test_the_job_needs_a_plan_and_trainable_precisions(tmp_path):
    with pytest.raises(InputError, match="needs the plan itself"):
        read_job(write(tmp_path, scenario(1, sharding={"planner": "greedy"})))
    tables = graded([{"rows": 9, "dim": 8, "pooling_factor": 1.0, "precision": "fp8"}])
    plan = planned(1, {"table_0": {"sharding_type": "data_parallel"}})
    with pytest.raises(InputError, match="no tables of this precision"):
        read_job(write(tmp_path, scenario(1, model=model(tables=tables), sharding={"plan": plan})))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pipeline", "semi_sync"),
        ("gradient_accumulation", 2),
        ("cuda_graph", "iteration"),
        ("hybrid_embedding", {}),
        ("dense", {"top": {"node": "fsdp"}}),
    ],
)
def test_schedules_that_the_trainer_lacks_are_refused(tmp_path, key, value):
    with pytest.raises(InputError) as refused:
        read_job(write(tmp_path, scenario(1, **{key: value})))
    assert refused.value.key == f"workload.{key}"


@pytest.mark.parametrize(
    ("workload", "key"),
    [
        ({"overlap": {"exchange": False}}, "exchange"),
        ({"overlap": {"all_reduce": False}}, "all_reduce"),
        ({"overlap": {"weight_gradients": True}}, "weight_gradients"),
        ({"framework": "nvidia_pytorch"}, "exchange"),
    ],
)
def test_other_overlaps_than_the_trainers_are_refused(tmp_path, workload, key):
    with pytest.raises(InputError, match="does not do this") as refused:
        read_job(write(tmp_path, scenario(1, **workload)))
    assert refused.value.key == f"workload.overlap.{key}"


def test_a_framework_without_the_trainers_overlaps_is_trained_where_the_scenario_asks_for_them(tmp_path):
    content = scenario(1, framework="nvidia_pytorch", overlap={"exchange": True})
    assert read_job(write(tmp_path, content)).settings.overlaps.exchange
