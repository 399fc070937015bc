"""Lookups in embedding tables and their gradients."""

from __future__ import annotations

from torch import Tensor

from trainer.capture.operators.call import CalledOperator
from trainer.capture.tensors import dtype_of
from workloads.captured.records import Lookup, RecordedWork, Table, Update

_FORWARD = ("_embedding_bag", "_embedding_bag_forward_only", "embedding")
_BACKWARD = {
    "embedding_dense_backward": True, "embedding_sparse_backward": False, "embedding_backward": None,
    "_embedding_bag_dense_backward": True, "_embedding_bag_sparse_backward": False, "_embedding_bag_backward": None,
}  # fmt: skip
"""Whether the gradient has all rows, by operator; None: its argument ``sparse`` says."""


def lookup(call: CalledOperator) -> list[RecordedWork] | None:
    """The kernel of a lookup or of its gradient; None of any other operator."""
    name = call.func._opname  # noqa: SLF001 - the name without namespace and overload
    indices = call.given.get("indices")
    if name in _FORWARD:
        weight, output = call.tensor("weight"), _first(call.result)
        table = _table(weight.shape[0], weight.shape[1], indices, output)
        return [
            Lookup(
                tables=(table,),
                dtype=dtype_of(weight),
                index_bytes=_index_bytes(indices),
                output_dtype=dtype_of(output),
            )
        ]
    if name not in _BACKWARD:
        return None
    gradient = call.given.get("grad_output")
    if gradient is None:
        gradient = call.given["grad"]
    dense = _BACKWARD[name]
    table = _table(call.given["num_weights"], gradient.shape[-1], indices, gradient)
    return [
        Update(
            tables=(table,),
            dtype=dtype_of(gradient),
            index_bytes=_index_bytes(indices),
            gradient_dtype=dtype_of(gradient),
            dense=(not call.given["sparse"]) if dense is None else dense,
        )
    ]


def _table(rows: int, dim: int, indices: Tensor | None, vectors: Tensor) -> Table:
    """Lookups of a batch: its indices, and the vectors written or read."""
    lookups = 0 if indices is None else indices.numel()
    return Table(rows=rows, dim=dim, lookups=lookups, bags=vectors.numel() // dim)


def _index_bytes(indices: Tensor | None) -> int:
    return 8 if indices is None else indices.element_size()


def _first(result: Tensor | tuple[Tensor, ...]) -> Tensor:
    return result if isinstance(result, Tensor) else result[0]
