"""Optimizers: the state they keep for each weight and each row, and the traffic of an update.

Those of tables are fused into the backward pass (FBGEMM split_table_batched_embeddings_ops_training.py, 1.9.0); dense
ones are PyTorch's and NVIDIA apex's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from simulator.program import IntArray

DenseOptimizerKind: TypeAlias = Literal["sgd", "adagrad", "adam", "lamb"]
TableOptimizerKind: TypeAlias = Literal["sgd", "adagrad", "rowwise_adagrad", "adam", "partial_rowwise_adam", "lamb"]

STATE_BYTES = 4
"""Optimizer state is fp32 (FBGEMM and PyTorch defaults)."""


@dataclass(frozen=True, slots=True)
class TableState:
    """Numbers of state of an embedding table: for each weight, and for each row."""

    per_weight: int
    per_row: int


TABLE_STATE: dict[TableOptimizerKind, TableState] = {
    "sgd": TableState(0, 0),
    "adagrad": TableState(1, 0),
    "rowwise_adagrad": TableState(0, 1),
    "adam": TableState(2, 0),
    "partial_rowwise_adam": TableState(1, 1),
    "lamb": TableState(2, 0),
}
"""Sums of squares (adagrad), first and second moments (adam, lamb), the second one per row (partial_rowwise_adam)."""

DENSE_STATE: dict[DenseOptimizerKind, int] = {"sgd": 0, "adagrad": 1, "adam": 2, "lamb": 2}
"""Numbers of optimizer state per parameter that every rank holds."""

DENSE_ACCESSES: dict[DenseOptimizerKind, int] = {"sgd": 3, "adagrad": 5, "adam": 7, "lamb": 13}
"""Numbers read or written per parameter: gradient read, weight read and written, state read and written.

LAMB, as apex's multi_tensor_lamb does it (recalled): norms of gradient, weight and update are a read each; its first
stage reads gradient, weight and both moments and writes the moments and the update, its second reads update and weight
and writes the weight."""


def state_elements(optimizer: TableOptimizerKind, rows: IntArray, dim: IntArray) -> IntArray:
    """Elements of optimizer state of shards ``[S]``."""
    state = TABLE_STATE[optimizer]
    return state.per_weight * rows * dim + state.per_row * rows


def copied_bytes(optimizer: DenseOptimizerKind, weight_bytes: IntArray) -> IntArray:
    """Memory of copies of tables on every rank ``[N]``: weights, a dense gradient, and dense optimizer state.

    Gradient and state have the element type of the weights, as ``torch.nn.Parameter.grad`` and ``torch.optim`` have.

    Args:
        weight_bytes: size of each table's weights ``[N]``.
    """
    return weight_bytes * (2 + DENSE_STATE[optimizer])
