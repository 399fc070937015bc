"""Table-batched embeddings of captured steps: on a CPU they compute what PyTorch's modules do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from trainer.capture.batches import jagged_indices
from trainer.capture.tables import TableBatch

ROWS, DIM, BAGS = (50, 70), 8, 16


@pytest.fixture
def weights():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(rows, DIM, generator=generator) for rows in ROWS]


def batch_of(weights, optimizer):
    made = TableBatch(ROWS, DIM, optimizer=optimizer, learning_rate=0.1)
    for table, weight in zip(made.tables, weights, strict=True):
        table.data.copy_(weight)
    return made


def bags_of(weights, optimizer):
    """PyTorch's modules with the same weights, and their optimizer."""
    bags = [torch.nn.EmbeddingBag.from_pretrained(weight.clone(), freeze=False, mode="sum") for weight in weights]
    return bags, optimizer([bag.weight for bag in bags], lr=0.1)


@pytest.mark.parametrize("jagged", [False, True])
@pytest.mark.parametrize(("name", "optimizer"), [("sgd", torch.optim.SGD), ("adagrad", torch.optim.Adagrad)])
def test_two_steps_are_those_of_embedding_bags(weights, name, optimizer, jagged):
    torch.manual_seed(2)
    made, (bags, stepped) = batch_of(weights, name), bags_of(weights, optimizer)
    given = [jagged_indices(rows, BAGS, 3.0, seed=rows) for rows in ROWS]
    if not jagged:
        given = [(torch.randint(0, rows, (BAGS, 3)), None) for rows in ROWS]
    target = torch.randn(BAGS, 2 * DIM)
    for _ in range(2):
        offsets = [own for _, own in given if own is not None]
        pooled = made([indices for indices, _ in given], offsets)
        expected = torch.cat([bag(i, o) for bag, (i, o) in zip(bags, given, strict=True)], dim=1)
        torch.testing.assert_close(pooled, expected)
        ((pooled - target) ** 2).sum().backward()
        stepped.zero_grad()
        ((expected - target) ** 2).sum().backward()
        stepped.step()
        for table, bag in zip(made.tables, bags, strict=True):
            torch.testing.assert_close(table.data, bag.weight.data)


def test_rowwise_adagrad_divides_a_row_by_the_root_of_its_mean_square(weights):
    made = batch_of(weights, "rowwise_adagrad")
    indices = [torch.tensor([[3]]), torch.tensor([[5]])]
    gradient = torch.arange(1.0, 2 * DIM + 1).reshape(1, -1)
    made(indices).backward(gradient)
    own = gradient[0, :DIM]
    expected = weights[0][3] - 0.1 * own / own.square().mean().sqrt()
    torch.testing.assert_close(made.tables[0].data[3], expected)
    assert torch.equal(made.tables[0].data[4], weights[0][4])


def test_lengths_of_bags_have_the_mean_that_was_asked_for():
    indices, offsets = jagged_indices(100, 4000, 6.5, "geometric", seed=3)
    assert len(offsets) == 4000
    assert len(indices) / 4000 == pytest.approx(6.5, rel=0.05)
    lengths = np.diff([*offsets.tolist(), len(indices)])
    assert lengths.var() == pytest.approx(6.5 + 6.5**2, rel=0.15)  # of a geometric law from 0 on
    again, _ = jagged_indices(100, 4000, 6.5, "geometric", seed=3)
    assert len(again) == len(indices)


def test_a_deviation_belongs_to_a_lognormal_law():
    with pytest.raises(ValidationError, match="deviation"):
        jagged_indices(100, 10, 6.5, "poisson", deviation=0.5)
