"""The yardstick: how fast the machine is at a moment, by the time of a small training step that never changes.

A shared machine is not equally fast at all times. So ranks time this step between iterations that they measure: it does
what a job does, operator after operator.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, embedding_bag, linear

from trainer.embeddings import update_rows
from trainer.lookups import Lookups, make_lookups
from trainer.optimizers import TableOptimizer

ROWS, DIM = 2**19, 64
"""Rows of the table and numbers in each: 128 MB in fp32, more than caches hold."""
REPEATS = 5
"""Steps of each look."""
SAMPLES, FEATURES, POOLING = 128, 8, 4
"""Samples of the batch, tables, lookups of a bag: few, so that the step takes two milliseconds of a core."""
HIDDEN = 128
"""Outputs of each layer but the last of both MLPs."""
UNCHANGED = 0.0
"""Factor of gradients: weights stay as they are, so that all steps do the same."""


class Yardstick:
    """A small training step of this process and its times.

    Attributes:
        times_s: duration of every step so far, `REPEATS` of each look, seconds: CPU time in a process of one thread,
            whose core may be another's meanwhile; wall time with several threads, which work at once.
    """

    def __init__(self) -> None:
        """Make the model, the same in every process."""
        table = torch.full((ROWS, DIM), 0.5)
        self._step = SmallStep(table, torch.randint(ROWS, (ROWS,), generator=torch.Generator().manual_seed(1)))
        self._clock = time.perf_counter if torch.get_num_threads() > 1 else time.thread_time
        self.times_s: list[float] = []

    def look(self) -> None:
        """Time the step now."""
        for _ in range(REPEATS):
            begin = self._clock()
            self._step()
            self.times_s.append(self._clock() - begin)


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
