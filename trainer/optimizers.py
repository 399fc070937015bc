"""Optimizers: a sparse one for embedding tables, PyTorch's own for what every rank holds.

That of tables makes one exact update per distinct row, in the backward pass, as FBGEMM's (split_table_batched_embeddings_ops_training.py): the gradient of a row is first summed over the batch, state is fp32.
Unlike there, 16-bit weights are rounded to nearest, not stochastically.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from workloads.settings import DenseOptimizerKind, TableOptimizerKind

LEARNING_RATE = {"sgd": 0.1, "adagrad": 0.01, "rowwise_adagrad": 0.01}
"""facebookresearch/dlrm trains Criteo with SGD at 0.1 (bench/dlrm_s_criteo_kaggle.sh); 0.01 is FBGEMM's default and
torch.optim.Adagrad's."""

EPSILON = 1e-8
"""Added to the root of the sum of squares (FBGEMM's default ``eps``)."""


class TableOptimizer:
    """Weights ``[R, D]`` of a block and the optimizer's state: none, ``[R, D]`` (adagrad) or ``[R]`` (rowwise)."""

    def __init__(self, kind: TableOptimizerKind, weight: Tensor) -> None:
        """Start with state 0."""
        self._weight, self._learning_rate = weight, LEARNING_RATE[kind]
        shape = {"sgd": (0,), "adagrad": tuple(weight.shape), "rowwise_adagrad": tuple(weight.shape[:1])}[kind]
        self.state = torch.zeros(shape, dtype=torch.float32, device=weight.device)
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


class DenseOptimizer:
    """torch.optim's SGD or Adagrad on whole buffers: parameters and their gradients, both made by others."""

    def __init__(self, kind: DenseOptimizerKind, buffers: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Note (parameters, gradient) of each buffer; a gradient is fp32, parameters may have 16 bits."""
        self._casts: list[tuple[Tensor, Tensor]] = []
        for parameters, gradient in buffers:
            parameters.grad = gradient.view_as(parameters)
            if gradient.dtype != parameters.dtype:
                parameters.grad = torch.zeros_like(parameters)
                self._casts.append((parameters.grad, gradient))
        make: dict[DenseOptimizerKind, type[torch.optim.Optimizer]]
        make = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}
        self._optimizer = make[kind]([parameters for parameters, _ in buffers], lr=LEARNING_RATE[kind])  # type: ignore[call-arg]

    def step(self) -> None:
        """Apply the gradients."""
        for cast, gradient in self._casts:
            cast.copy_(gradient)
        self._optimizer.step()

    @property
    def state(self) -> list[Tensor]:
        """Tensors of the optimizer's state, in a fixed order."""
        return [value for state in self._optimizer.state.values() for value in state.values()]
