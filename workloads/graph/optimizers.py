"""Optimizers: the state they keep for each weight and each row, and the traffic of an update.

Those of tables are fused into the backward pass (FBGEMM split_table_batched_embeddings_ops_training.py, 1.9.0); dense
ones are PyTorch's and NVIDIA apex's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from simulator.program import IntArray

DenseOptimizerKind: TypeAlias = Literal["sgd", "split_sgd", "adagrad", "adam", "lamb"]
TableOptimizerKind: TypeAlias = Literal[
    "sgd", "split_sgd", "adagrad", "rowwise_adagrad", "adam", "partial_rowwise_adam", "lamb"
]  # fmt: skip

STATE_BYTES = 4
"""Optimizer state is fp32 (FBGEMM and PyTorch defaults)."""


@dataclass(frozen=True, slots=True)
class TableState:
    """Numbers of state of an embedding table: for each weight, and for each row."""

    per_weight: float
    per_row: int


TABLE_STATE: dict[TableOptimizerKind, TableState] = {
    "sgd": TableState(0, 0),
    "split_sgd": TableState(0.5, 0),
    "adagrad": TableState(1, 0),
    "rowwise_adagrad": TableState(0, 1),
    "adam": TableState(2, 0),
    "partial_rowwise_adam": TableState(1, 1),
    "lamb": TableState(2, 0),
}
"""The lower 16 bits of each weight, whose upper ones are the bf16 weight (split_sgd: Kalamkar et al., SC 2020), sums of
squares (adagrad), first and second moments (adam, lamb), the second one per row (partial_rowwise_adam)."""

DENSE_STATE: dict[DenseOptimizerKind, int] = {"sgd": 0, "split_sgd": 0, "adagrad": 1, "adam": 2, "lamb": 2}
"""Numbers of optimizer state per parameter that every rank holds; halves of fp32 weights are no state (split_sgd)."""

DENSE_ACCESSES: dict[DenseOptimizerKind, float] = {"sgd": 3, "split_sgd": 2.5, "adagrad": 5, "adam": 7, "lamb": 13}
"""Numbers read or written per parameter: gradient read, weight read and written, state read and written. The gradient
of split_sgd has 16 bits.

LAMB, as apex's multi_tensor_lamb does it (recalled): norms of gradient, weight and update are a read each; its first
stage reads gradient, weight and both moments and writes the moments and the update, its second reads update and weight
and writes the weight."""


def state_elements(optimizer: TableOptimizerKind, rows: IntArray, dim: IntArray) -> IntArray:
    """Elements of optimizer state of shards ``[S]``."""
    state = TABLE_STATE[optimizer]
    return np.asarray(np.ceil(state.per_weight * rows * dim), dtype=np.int64) + state.per_row * rows


def copied_bytes(optimizer: DenseOptimizerKind, weight_bytes: IntArray) -> IntArray:
    """Memory of copies of tables on every rank ``[N]``: weights, a dense gradient, and dense optimizer state.

    Gradient and state have the element type of the weights, as ``torch.nn.Parameter.grad`` and ``torch.optim`` have.

    Args:
        weight_bytes: size of each table's weights ``[N]``.
    """
    return weight_bytes * (2 + DENSE_STATE[optimizer])
