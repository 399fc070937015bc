"""Embedding tables of a rank in one kernel, as FBGEMM's table-batched embeddings have them.

The operators ``dlrmsim::table_lookup`` and ``dlrmsim::table_update`` run on a CPU, table by table; a capture takes each
as the one kernel that it is on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter, ParameterList

from inputs.errors import InputError
from workloads.captured.records import Optimized

EPSILON = 1e-8
"""Added to the root of Adagrad's sums (FBGEMM's default)."""

OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad")
"""Optimizers that are fused into the update."""

LOOKUP, UPDATE = "dlrmsim::table_lookup", "dlrmsim::table_update"


@torch.library.custom_op(LOOKUP, mutates_args=())
def table_lookup(weights: Sequence[Tensor], indices: Sequence[Tensor], offsets: Sequence[Tensor]) -> Tensor:
    """Sums of the rows of each bag, tables beside each other ``[bags, sum of dims]``.

    Args:
        weights: tables ``[rows, dim]``.
        indices: rows of each bag of each table: ``[bags, lookups]``, or of all bags in turn with offsets.
        offsets: first index of each bag ``[bags]`` of each table; none: all bags have as many.
    """
    starts: list[Tensor | None] = [*offsets] or [None] * len(weights)
    bags = zip(indices, weights, starts, strict=True)
    pooled = [torch.nn.functional.embedding_bag(own, table, start, mode="sum") for own, table, start in bags]
    return torch.cat(pooled, dim=1)


@table_lookup.register_fake
def _(weights: Sequence[Tensor], indices: Sequence[Tensor], offsets: Sequence[Tensor]) -> Tensor:
    bags = (offsets or indices)[0].shape[0]
    return weights[0].new_empty(bags, sum(table.shape[1] for table in weights))


@torch.library.custom_op(UPDATE, mutates_args={"weights", "state"})
def table_update(
    weights: Sequence[Tensor],
    state: Sequence[Tensor],
    indices: Sequence[Tensor],
    offsets: Sequence[Tensor],
    gradient: Tensor,
    optimizer: str,
    learning_rate: float,
) -> None:
    """Apply the gradients of bags ``[bags, sum of dims]`` to the rows that were looked up.

    Args:
        state: sums of squares of each table, ``[rows]`` or ``[rows, dim]``; empty for SGD.
        indices: as of the lookup; ``offsets`` likewise.
        optimizer: sgd, adagrad or rowwise_adagrad.
    """
    first = 0
    for number, (table, own) in enumerate(zip(weights, indices, strict=True)):
        lengths = _lengths(own, offsets[number] if offsets else None)
        rows, place = own.reshape(-1).unique(return_inverse=True)
        part = gradient[:, first : first + table.shape[1]].repeat_interleave(lengths, dim=0).to(table.dtype)
        summed = torch.zeros(len(rows), table.shape[1], dtype=table.dtype).index_add_(0, place, part)
        if optimizer == "sgd":
            step = summed
        else:
            squares = summed.square().mean(dim=1) if optimizer == "rowwise_adagrad" else summed.square()
            state[number].index_add_(0, rows, squares)
            scale = state[number][rows].sqrt_().add_(EPSILON)
            step = summed / (scale[:, None] if optimizer == "rowwise_adagrad" else scale)
        table.index_add_(0, rows, step, alpha=-learning_rate)
        first += table.shape[1]


@table_update.register_fake
def _(*_: object) -> None:
    return None


def _lengths(indices: Tensor, offsets: Tensor | None) -> Tensor:
    """Lookups of each bag ``[bags]``."""
    if offsets is None:
        return torch.full((indices.shape[0],), indices.shape[1])
    ends = torch.cat([offsets[1:], torch.tensor([indices.numel()])])
    return ends - offsets


class _Lookup(torch.autograd.Function):
    """The lookup, whose backward pass is the update."""

    @staticmethod
    def forward(
        ctx: Any, batch: TableBatch, _: Tensor, numbers: list[int], offsets: list[Tensor], *indices: Tensor
    ) -> Tensor:
        ctx.batch, ctx.numbers, ctx.indices, ctx.offsets = batch, numbers, indices, offsets
        found: Tensor = table_lookup([batch.tables[n] for n in numbers], list(indices), offsets)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, ...]:
        batch: TableBatch = ctx.batch
        tables, indices = [batch.tables[n] for n in ctx.numbers], list(ctx.indices)
        state = [batch.state[n] for n in ctx.numbers] if len(batch.state) else []
        rate = batch.learning_rate
        table_update(tables, state, indices, ctx.offsets, gradients[0], batch.optimizer, rate)
        return (None,) * (4 + len(indices))


def lookup(batch: TableBatch, indices: Sequence[Tensor], offsets: Sequence[Tensor], numbers: Sequence[int]) -> Tensor:
    """Sums of the rows of each bag in the tables of some numbers, which may repeat ``[bags, sum of dims]``."""
    found: Tensor = _Lookup.apply(batch, batch.anchor, list(numbers), list(offsets), *indices)  # type: ignore[no-untyped-call]
    return found


class TableBatch(Module):
    """Embedding tables with one kernel for all lookups and one for all gradients and updates.

    Attributes:
        tables: weights ``[rows, dim]``, which no other optimizer updates.
        state: sums of squares of Adagrad.
        anchor: empty tensor that lets the backward pass reach the lookup.
    """

    def __init__(
        self,
        rows: Sequence[int],
        dim: int | Sequence[int],
        *,
        optimizer: Optimized = "sgd",
        learning_rate: float = 0.01,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        """Make the tables.

        Args:
            rows: rows of each table.
            dim: columns of all tables, or of each.
            optimizer: sgd, adagrad or rowwise_adagrad.
        """
        super().__init__()
        if optimizer not in OPTIMIZERS:
            expected = f"one of {', '.join(OPTIMIZERS)}"
            raise InputError("tables have no such optimizer", given=optimizer, expected=expected)
        dims = [dim] * len(rows) if isinstance(dim, int) else list(dim)
        made = [torch.empty(n, d, dtype=dtype, device=device) for n, d in zip(rows, dims, strict=True)]
        self.tables = ParameterList([Parameter(table, requires_grad=False) for table in made])
        shapes: dict[str, list[tuple[int, ...]]] = {
            "sgd": [],
            "rowwise_adagrad": [(n,) for n in rows],
            "adagrad": list(zip(rows, dims, strict=True)),
        }
        state = [Parameter(torch.zeros(shape, device=device), requires_grad=False) for shape in shapes[optimizer]]
        self.state = ParameterList(state)
        self.optimizer, self.learning_rate = optimizer, learning_rate
        self.anchor = torch.empty(0, requires_grad=True, device=device)

    def forward(self, indices: Sequence[Tensor], offsets: Sequence[Tensor] = ()) -> Tensor:
        """Sums of the rows of each bag, tables beside each other ``[bags, sum of dims]``.

        Args:
            indices: rows of each bag of each table: ``[bags, lookups]``, or of all bags in turn with offsets.
            offsets: first index of each bag ``[bags]`` of each table; none: all bags have as many.
        """
        return lookup(self, indices, offsets, range(len(self.tables)))
