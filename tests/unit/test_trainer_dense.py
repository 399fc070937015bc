"""The dense part against the formulas written out in plain PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from tests.trainer_jobs import DIM, FEATURES, TABLES, graded, model, scenario, whole_tables, write  # noqa: E402 - needs torch
from trainer.buckets import BucketedGradients  # noqa: E402
from trainer.dense import Columns, DenseModule  # noqa: E402
from trainer.job import read_job  # noqa: E402
from trainer.model import RankModel  # noqa: E402

BATCH, DENSE = 6, 5
CPU = torch.device("cpu")


def dense_part(tmp_path, **changes):
    return DenseModule(read_job(write(tmp_path, scenario(1, model=model(**changes)))), CPU)


def inputs():
    draw = torch.Generator().manual_seed(3)
    return torch.randn(BATCH, DENSE, generator=draw), torch.randn(BATCH, FEATURES * DIM, generator=draw)


def by_name(part):
    return {layer.layer.name: layer for layer in part.layers}


def linear(layer, x):
    return x @ layer.weight.T + (0 if layer.bias is None else layer.bias)


def test_dot_keeps_products_of_distinct_pairs_beside_the_bottom_output(tmp_path):
    part, (x, pooled) = dense_part(tmp_path), inputs()
    layers = by_name(part)
    bottom = linear(layers["bottom_1"], linear(layers["bottom_0"], x).relu()).relu()
    vectors = [bottom, *pooled.split(DIM, 1)]
    pairs = [(vectors[i] * vectors[j]).sum(1) for i in range(FEATURES + 1) for j in range(i)]
    joined = torch.cat([bottom, torch.stack(pairs, 1)], 1)
    torch.testing.assert_close(part.interact(part.bottom(x), pooled), joined)
    logits = linear(layers["top_1"], linear(layers["top_0"], joined).relu())
    torch.testing.assert_close(part.top(joined), logits)


def test_cat_joins_the_vectors(tmp_path):
    part, (x, pooled) = dense_part(tmp_path, interaction=graded("cat")), inputs()
    assert torch.equal(part.interact(part.bottom(x), pooled), torch.cat([part.bottom(x), pooled], 1))


def test_dcnv2_adds_cross_layers(tmp_path):
    """x <- x0 * (U V x + b) + x (arXiv 2008.13535)."""
    part, (x, pooled) = (
        dense_part(tmp_path, interaction=graded("dcnv2"), cross={"layers": graded(2), "rank": graded(3)}),
        inputs(),
    )
    layers = by_name(part)
    first = crossed = torch.cat([part.bottom(x), pooled], 1)
    for number in range(2):
        u, v = layers[f"cross_{number}_u"], layers[f"cross_{number}_v"]
        crossed = first * (crossed @ v.weight.T @ u.weight.T + u.bias) + crossed
    torch.testing.assert_close(part.interact(part.bottom(x), pooled), crossed)


def test_reduce_reads_every_vector_and_writes_one_as_wide_as_the_top_mlps_input(tmp_path):
    """8 + 72 columns folded to the 5 of the dense features: 16 pieces; 8 + 8 to 5: 3, and one of a single column."""
    part, (x, pooled) = dense_part(tmp_path, interaction=graded("reduce")), inputs()
    joined = torch.cat([part.bottom(x), pooled], 1)
    torch.testing.assert_close(part.interact(part.bottom(x), pooled), joined.reshape(BATCH, 16, 5).sum(1))
    few = joined[:, :16]
    expected = few[:, :15].reshape(BATCH, 3, 5).sum(1)
    expected[:, 0] += few[:, 15]
    torch.testing.assert_close(part.interact(few[:, :8], few[:, 8:]), expected)


def test_pool_averages_neighbours_beside_the_bottom_mlps_output(tmp_path):
    """72 columns in means of 7: ten whole windows and one of two columns, behind the 8 of the bottom MLP."""
    part, (x, pooled) = dense_part(tmp_path, interaction=graded("pool"), pool_stride=graded(7)), inputs()
    found = part.interact(part.bottom(x), pooled)
    assert found.shape == (BATCH, 8 + 11)
    torch.testing.assert_close(found[:, :8], part.bottom(x))
    torch.testing.assert_close(found[:, 8:18], pooled[:, :70].reshape(BATCH, 10, 7).mean(2))
    torch.testing.assert_close(found[:, 18], pooled[:, 70:].mean(1))


def test_the_gradient_of_columns_is_exact():
    matrix = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda m: Columns.apply(m, torch.tensor([5, 0, 3])), (matrix,))


def test_layers_share_one_buffer_and_weights_depend_on_the_seed_alone(tmp_path):
    one, other = dense_part(tmp_path / "1"), dense_part(tmp_path / "2")
    assert torch.equal(one.flat, other.flat)
    assert sum(p.numel() for layer in one.layers for p in layer.parameters) == one.flat.numel()
    one.flat.zero_()
    assert not any(p.any() for layer in one.layers for p in layer.parameters)
    again = read_job(write(tmp_path / "3", scenario(1) | {"variation": {"seed": 8}}))
    assert not torch.equal(DenseModule(again, CPU).flat, other.flat)


def test_buckets_are_those_that_the_simulator_counts(tmp_path):
    job = read_job(write(tmp_path, scenario(1)))
    part = DenseModule(job, CPU)
    copied = [57 * 8]
    buckets = BucketedGradients(job, part.layers, copied, CPU)
    assert [opened.bucket for opened in buckets._open] == list(job.job.buckets)
    assert buckets.dense.numel() == part.flat.numel()
    assert buckets.copied.numel() == sum(copied)


@pytest.mark.parametrize("world_size", [2, 4])
def test_first_weights_of_tables_do_not_depend_on_how_they_are_sharded(tmp_path, world_size):
    alone, several = (read_job(write(tmp_path / str(n), scenario(n))) for n in (1, world_size))
    expected = whole_tables([RankModel(alone, 0, CPU)])
    found = whole_tables([RankModel(several, rank, CPU) for rank in range(world_size)])
    assert [torch.equal(found[table], expected[table]) for table in range(len(TABLES))] == [True] * len(TABLES)
    scaled = torch.cat([table.ravel() * len(table) ** 0.5 for table in expected.values()])
    assert scaled.abs().max() <= 1
    assert scaled.var().item() == pytest.approx(1 / 3, abs=0.01)
