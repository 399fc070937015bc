"""Optimizers: a sparse one for embedding tables, a dense one for parameters that every rank holds.

That of tables makes one exact update per distinct row, in the backward pass, as FBGEMM's does
(split_table_batched_embeddings_ops_training.py): the gradient of a row is first summed over the batch, state is fp32.
Unlike there, 16-bit weights are rounded to nearest, not stochastically.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from workloads.graph.optimizers import DenseOptimizerKind, TableOptimizerKind

LEARNING_RATE = {"sgd": 0.1, "adagrad": 0.01, "rowwise_adagrad": 0.01}
"""facebookresearch/dlrm trains Criteo with SGD at 0.1 (bench/dlrm_s_criteo_kaggle.sh); 0.01 is FBGEMM's default and
torch.optim.Adagrad's."""

EPSILON = 1e-8
"""Added to the root of the sum of squares (FBGEMM's default ``eps``)."""

DENSE_EPSILON = 1e-10
"""The same of torch.optim.Adagrad."""


class TableOptimizer:
    """Weights ``[R, D]`` of a block and the optimizer's state: none, ``[R, D]`` (adagrad) or ``[R]`` (rowwise)."""

    def __init__(self, kind: TableOptimizerKind, weight: Tensor, state: Tensor | None = None) -> None:
        """Start with a state, None: with 0."""
        self._weight, self._learning_rate = weight, LEARNING_RATE[kind]
        shape = {"sgd": (0,), "adagrad": tuple(weight.shape), "rowwise_adagrad": tuple(weight.shape[:1])}[kind]
        self.state = torch.zeros(shape, dtype=torch.float32, device=weight.device) if state is None else state
        self._scale = {"sgd": self._sgd, "adagrad": self._adagrad, "rowwise_adagrad": self._rowwise_adagrad}[kind]

    def update(self, rows: Tensor, gradient: Tensor) -> None:
        """Apply gradients ``[U, D]`` of distinct rows ``[U]``; overwrites ``gradient``."""
        self._scale(rows, gradient)
        if self._weight.dtype == torch.float32:
            self._weight.index_add_(0, rows, gradient)
        else:
            changed = gradient.add_(self._weight.index_select(0, rows))
            self._weight.index_copy_(0, rows, changed.to(self._weight.dtype))

    def _sgd(self, _rows: Tensor, gradient: Tensor) -> None:
        gradient.mul_(-self._learning_rate)

    def _adagrad(self, rows: Tensor, gradient: Tensor) -> None:
        squares = self.state.index_select(0, rows).addcmul_(gradient, gradient)
        self.state.index_copy_(0, rows, squares)
        gradient.div_(squares.sqrt_().add_(EPSILON)).mul_(-self._learning_rate)

    def _rowwise_adagrad(self, rows: Tensor, gradient: Tensor) -> None:
        mean_square = torch.linalg.vecdot(gradient, gradient).div_(gradient.shape[1])
        squares = mean_square.add_(self.state.index_select(0, rows))
        self.state.index_copy_(0, rows, squares)
        gradient.mul_(squares.sqrt_().add_(EPSILON).reciprocal_().mul_(-self._learning_rate).unsqueeze(1))


class BufferOptimizer:
    """SGD or Adagrad, as torch.optim has them, on whole buffers that others make: parameters and their gradients.

    torch.optim itself would load torch.compile's packages into every rank, which takes longer than to load PyTorch.
    """

    def __init__(self, kind: DenseOptimizerKind, buffers: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Note (parameters, gradient) of each buffer; gradients are fp32, parameters may have 16 bits."""
        self._learning_rate, self._buffers = LEARNING_RATE[kind], buffers
        self.state = [torch.zeros_like(gradient) for _, gradient in buffers] if kind == "adagrad" else []
        self._scratch = [torch.zeros_like(state) for state in self.state]

    def step(self) -> None:
        """Apply the gradients."""
        if not self.state:
            for parameters, gradient in self._buffers:
                parameters.add_(gradient, alpha=-self._learning_rate)
        for (parameters, gradient), squares, scratch in zip(self._buffers, self.state, self._scratch, strict=False):
            squares.addcmul_(gradient, gradient)
            torch.sqrt(squares, out=scratch).add_(DENSE_EPSILON)
            torch.div(gradient, scratch, out=scratch)
            parameters.add_(scratch, alpha=-self._learning_rate)
