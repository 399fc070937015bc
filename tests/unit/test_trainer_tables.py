"""Lookups, gradients of rows and optimizers against PyTorch's autograd and torch.optim on dense tables."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from trainer import embeddings as embeddings_module  # noqa: E402 - needs torch
from trainer import lookups as lookups_module  # noqa: E402 - needs torch
from trainer.embeddings import BlockTable  # noqa: E402 - needs torch
from trainer.layout import Piece, ShardBlock  # noqa: E402 - needs torch
from trainer.lookups import make_lookups, row_gradients, stable_order  # noqa: E402
from trainer.optimizers import LEARNING_RATE, BufferOptimizer, TableOptimizer  # noqa: E402

ROWS, DIM = 23, 6


def random_lookups(seed, bags=12, most=5, rows=ROWS):
    draw = np.random.default_rng(seed)
    lengths = torch.from_numpy(draw.integers(0, most, bags))
    values = torch.from_numpy(draw.integers(0, rows, int(lengths.sum())))
    return values, lengths, torch.from_numpy(draw.standard_normal((bags, DIM))).float()


def autograd_gradient(values, lengths, gradient, rows=ROWS):
    """Gradient of a dense table ``[R, D]`` by PyTorch."""
    weight = torch.zeros(rows, DIM, requires_grad=True)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    pooled = torch.nn.functional.embedding_bag(values, weight, offsets, mode="sum", include_last_offset=True)
    pooled.backward(gradient)
    return weight.grad


def test_weights_are_drawn_or_repeat_themselves(monkeypatch):
    monkeypatch.setattr(embeddings_module, "REPEATED_VALUES", 8 * DIM)
    block = ShardBlock((Piece(0, ROWS, DIM, 0, ROWS, 0, DIM, "fp32", (0,)),))
    drawn, repeated = (BlockTable(block, 7, torch.device("cpu"), repeated=some).weight for some in (False, True))
    assert len(drawn.unique()) == ROWS * DIM
    assert torch.equal(repeated[:8], drawn[:8])
    assert torch.equal(repeated[8:16], drawn[:8])
    assert torch.equal(repeated[16:], drawn[: ROWS - 16])


@given(seed=st.integers(0, 10_000), chunk_rows=st.integers(1, 40))
@settings(deadline=None)
def test_row_gradients_are_those_of_autograd(seed, chunk_rows):
    """Whatever the chunks: distinct rows ascending, each once, with the summed gradient of its bags."""
    values, lengths, gradient = random_lookups(seed)
    found = torch.zeros(ROWS, DIM)
    rows = []
    before = lookups_module.CHUNK_BYTES
    lookups_module.CHUNK_BYTES = chunk_rows * DIM * 4
    try:
        for some, summed in row_gradients(make_lookups(values, lengths, [0], 1, ROWS), gradient):
            assert len(some) <= chunk_rows
            rows += some.tolist()
            found[some] = summed
    finally:
        lookups_module.CHUNK_BYTES = before
    assert rows == sorted(set(values.tolist()))
    torch.testing.assert_close(found, autograd_gradient(values, lengths, gradient))


def test_shards_of_a_block_are_looked_up_in_their_own_rows():
    """Bags come ordered by source, shard, sample; the second shard begins at row 10 of the block."""
    lookups = make_lookups(torch.tensor([1, 2, 3, 4, 5]), torch.tensor([1, 0, 2, 0, 1, 1, 0, 0]), [0, 10], 2, 30)
    assert lookups.rows.tolist() == [1, 12, 13, 4, 5]
    assert lookups.offsets.tolist() == [0, 1, 1, 3, 3, 4, 5, 5, 5]


def test_indices_become_wide_enough_for_the_block():
    narrow = torch.tensor([5], dtype=torch.int32)
    assert make_lookups(narrow, torch.tensor([1]), [0], 1, 2**31 - 1).rows.dtype == torch.int32
    wide = make_lookups(narrow.repeat(2), torch.tensor([1, 1]), [0, 2**31], 1, 2**31 + 9)
    assert wide.rows.tolist() == [5, 2**31 + 5]


@pytest.mark.parametrize("count", [7, 40_000])
def test_the_order_is_stable(count):
    keys = torch.from_numpy(np.random.default_rng(1).integers(0, count, 500))
    assert torch.equal(stable_order(keys, count), torch.sort(keys, stable=True).indices)


@pytest.mark.parametrize(("kind", "make"), [("sgd", torch.optim.SGD), ("adagrad", torch.optim.Adagrad)])
def test_sparse_updates_are_torch_optims_on_the_dense_table(kind, make):
    """Rows without a lookup stay: their gradient is 0, with which neither SGD nor Adagrad moves."""
    start = torch.randn(ROWS, DIM, generator=torch.Generator().manual_seed(1))
    ours, theirs = start.clone(), start.clone().requires_grad_()
    optimizer, reference = TableOptimizer(kind, ours), make([theirs], lr=LEARNING_RATE[kind])
    for seed in range(5):
        values, lengths, gradient = random_lookups(seed)
        for rows, summed in row_gradients(make_lookups(values, lengths, [0], 1, ROWS), gradient):
            optimizer.update(rows, summed)
        theirs.grad = autograd_gradient(values, lengths, gradient)
        reference.step()
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)
    assert not torch.equal(ours, start)


def test_rowwise_adagrad_keeps_the_mean_square_of_a_row():
    """By hand: state 4, then 4 + 16; the row moves by -lr g / root(state)."""
    weight = torch.zeros(3, 2)
    optimizer = TableOptimizer("rowwise_adagrad", weight)
    rate = LEARNING_RATE["rowwise_adagrad"]
    optimizer.update(torch.tensor([2]), torch.tensor([[2.0, -2.0]]))
    assert optimizer.state.tolist() == [0, 0, 4]
    assert weight[2].tolist() == pytest.approx([-rate, rate])
    optimizer.update(torch.tensor([2]), torch.tensor([[4.0, 4.0]]))
    assert optimizer.state.tolist() == [0, 0, 20]
    assert weight[2].tolist() == pytest.approx([-rate - rate * 4 / 20**0.5, rate - rate * 4 / 20**0.5])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_of_16_bits_are_updated_in_fp32_and_rounded(dtype):
    weight = torch.ones(2, DIM, dtype=dtype)
    TableOptimizer("sgd", weight).update(torch.tensor([1]), torch.full((1, DIM), 0.3))
    assert torch.equal(weight[1], torch.full((DIM,), 1 - 0.1 * 0.3).to(dtype))
    assert torch.equal(weight[0], torch.ones(DIM, dtype=dtype))


@pytest.mark.parametrize(("kind", "make"), [("sgd", torch.optim.SGD), ("adagrad", torch.optim.Adagrad)])
def test_the_dense_optimizer_is_torch_optims(kind, make):
    start, draw = torch.randn(50, generator=torch.Generator().manual_seed(2)), torch.Generator().manual_seed(3)
    ours, theirs, gradient = start.clone(), start.clone().requires_grad_(), torch.zeros(50)
    optimizer, reference = BufferOptimizer(kind, [(ours, gradient)]), make([theirs], lr=LEARNING_RATE[kind])
    for _ in range(4):
        gradient.copy_(torch.randn(50, generator=draw))
        theirs.grad = gradient.clone()
        optimizer.step()
        reference.step()
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-6, atol=1e-7)
