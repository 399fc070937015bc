"""A training step of a small fixed model, on a processor: what a job does, operator after operator, as a yardstick."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, embedding_bag, linear

from trainer.embeddings import update_rows
from trainer.lookups import Lookups, make_lookups
from trainer.optimizers import TableOptimizer

SAMPLES, FEATURES, POOLING = 128, 8, 4
"""Samples of the batch, tables, lookups of a bag: few, for the step to take two milliseconds of a core."""
HIDDEN = 128
"""Outputs of each layer but the last of both MLPs."""
UNCHANGED = 0.0
"""What gradients are multiplied by: the step is the same at all times."""


class SmallStep:
    """Lookups, bottom MLP, interaction, top MLP, their backward passes and updates, of one process by itself.

    All tables are one, and every bag has as many lookups. Weights are such that no number is denormal.
    """

    def __init__(self, table: Tensor, drawn: Tensor) -> None:
        """Make the layers.

        Args:
            table: weights ``[R, D]``, fp32, which stay as they are.
            drawn: rows of it ``[n]``, int64, of which each step takes the next ``SAMPLES * FEATURES * POOLING``; n is
                no less.
        """
        self._table, self._drawn, self._begin = table, drawn, 0
        self._optimizer = TableOptimizer("sgd", table)
        self._lengths = torch.full((SAMPLES * FEATURES,), POOLING, dtype=torch.int64)
        vectors, dim = FEATURES + 1, table.shape[1]
        joined = dim + vectors * vectors
        shapes = ((HIDDEN, dim), (dim, HIDDEN), (HIDDEN, joined), (HIDDEN, HIDDEN), (1, HIDDEN))
        self._weights = [torch.full(shape, 1.0 / shape[1]).requires_grad_() for shape in shapes]
        self._biases = [torch.zeros(shape[0]).requires_grad_() for shape in shapes]
        self._dense, self._clicks = torch.full((SAMPLES, dim), 0.5), torch.full((SAMPLES, 1), 0.5)

    def __call__(self) -> None:
        """Do it once."""
        lookups = self._lookups()
        with torch.no_grad():
            bags = embedding_bag(lookups.rows, self._table, lookups.offsets, mode="sum", include_last_offset=True)
        pooled = bags.view(FEATURES, SAMPLES, -1).transpose(0, 1).contiguous().requires_grad_()
        bottom = self._layer(1, self._layer(0, self._dense))
        vectors = torch.cat([bottom[:, None], pooled], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        top = self._layer(3, self._layer(2, torch.cat([bottom, products], 1)))
        binary_cross_entropy_with_logits(linear(top, self._weights[4], self._biases[4]), self._clicks).backward()
        with torch.no_grad():
            self._update(lookups, pooled)

    def _lookups(self) -> Lookups:
        count = len(self._lengths) * POOLING
        if self._begin + count > len(self._drawn):
            self._begin = 0
        rows = self._drawn[self._begin : self._begin + count]
        self._begin += count
        return make_lookups(rows, self._lengths, [0] * FEATURES, 1, len(self._table))

    def _layer(self, number: int, x: Tensor) -> Tensor:
        return torch.relu(linear(x, self._weights[number], self._biases[number]))

    def _update(self, lookups: Lookups, pooled: Tensor) -> None:
        if pooled.grad is None:
            raise RuntimeError("the pooled vectors have no gradient")
        update_rows(self._optimizer, lookups, pooled.grad.transpose(0, 1).reshape(len(self._lengths), -1), UNCHANGED)
        for parameters in (*self._weights, *self._biases):
            if parameters.grad is not None:
                parameters.add_(parameters.grad, alpha=UNCHANGED)
                parameters.grad = None
