"""Gradients of some rows: sparse tensors, whose operators PyTorch cannot run on tensors without memory.

Shapes of results follow from the number of stored rows alone; nothing else of such a tensor is known in a capture.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from trainer.capture.operators.call import CalledOperator
from trainer.capture.tensors import bytes_of, is_sparse, tensors_in
from workloads.captured.records import Moved, RecordedWork

_SORT_PASSES = 4
"""Times that the sort of a coalescing reads and writes indices of 32 bits: radix digits of 8 bits (CUB's default)."""


_NEW_ROWS = ("mul", "div", "pow", "neg", "add", "sub", "sqrt", "clone", "abs", "sign")
_SAME_ROWS = ("mul_", "div_", "neg_", "add_", "sub_", "zero_", "_coalesce", "coalesce")
"""Operators whose result has the rows of their first argument, in a new tensor or in the same one."""


class Unhandled:
    """Result of operators that PyTorch runs itself."""


def without_memory(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Result of an operator on sparse gradients, or `Unhandled`.

    Raises:
        NotImplementedError: the operator makes a dense tensor of a sparse one.
    """
    name = func._opname  # noqa: SLF001 - the name without namespace and overload
    if name == "_embedding_bag_backward":
        return _rows_of_bags(CalledOperator(func, args, kwargs, None))
    sparse = [tensor for tensor in tensors_in((*args, kwargs)) if is_sparse(tensor)]
    if not sparse:
        return Unhandled
    return _of_rows(name, args)


def _of_rows(name: str, args: tuple[Any, ...]) -> Any:
    """Result of an operator with a sparse argument, or `Unhandled`."""
    first = args[0]
    if name == "sparse_mask":
        return _like(args[1])
    if not is_sparse(first):
        return first if name in ("add_", "copy_") else Unhandled
    if name == "add" and is_sparse(args[1]):
        return _joined(first, args[1])
    if name in _NEW_ROWS:
        return _like(first)
    return first if name in _SAME_ROWS else Unhandled


def sparse_rows(call: CalledOperator) -> list[RecordedWork] | None:
    """Kernel of an operator on sparse gradients; None of any other operator."""
    sparse = [tensor for tensor in (*call.read, *call.written) if is_sparse(tensor)]
    if not sparse or call.func._opname.startswith("embedding") or "backward" in call.func._opname:  # noqa: SLF001
        return None
    stored = bytes_of(sparse[0])
    values, indices = bytes_of(sparse[0]._values()), bytes_of(sparse[0]._indices())  # noqa: SLF001
    name = call.func._opname  # noqa: SLF001
    if name in ("_coalesce", "coalesce"):
        sorted_bytes = _SORT_PASSES * indices
        return [Moved(read_bytes=stored + sorted_bytes, write_bytes=stored + sorted_bytes)]
    if name in ("add_", "copy_") and not is_sparse(call.tensor("self")):
        read = stored + (values if name == "add_" else 0.0)
        return [Moved(read_bytes=read, write_bytes=values)]
    return [Moved(read_bytes=stored, write_bytes=values)]


def _rows_of_bags(call: CalledOperator) -> Any:
    """Sparse gradient of a table whose rows are summed: a row for each index."""
    if not call.given["sparse"]:
        return Unhandled
    indices, gradient = call.tensor("indices"), call.tensor("grad")
    values = gradient.new_empty(indices.numel(), gradient.shape[1])
    size = (call.given["num_weights"], gradient.shape[1])
    return torch.sparse_coo_tensor(indices.reshape(1, -1), values, size, check_invariants=False)


def _joined(first: Tensor, second: Tensor) -> Tensor:
    """Sum of two gradients, which has the rows of both (pytorch SparseCUDATensorMath.cu, add_out_sparse_cuda)."""
    indices = torch.cat([first._indices(), second._indices()], dim=1)  # noqa: SLF001
    values = torch.cat([first._values(), second._values()])  # noqa: SLF001
    return torch.sparse_coo_tensor(indices, values, first.shape, check_invariants=False)


def _like(sparse: Tensor) -> Tensor:
    values = torch.empty_like(sparse._values())  # noqa: SLF001
    made: Tensor = torch.sparse_coo_tensor(
        sparse._indices(),  # noqa: SLF001
        values,
        sparse.shape,
        check_invariants=False,
        is_coalesced=True,  # its indices are unknown, and coalescing would ask for them
    )
    return made
