"""Matrix products: two factors, or batches of them."""

from __future__ import annotations

from math import prod

from torch import Tensor

from trainer.capture.operators.call import CalledOperator
from trainer.capture.tensors import dtype_of
from workloads.captured.records import Product, RecordedWork

_FACTORS = {
    "mm": ("self", "mat2"), "addmm": ("mat1", "mat2"), "bmm": ("self", "mat2"), "baddbmm": ("batch1", "batch2"),
    "_int_mm": ("self", "mat2"), "addbmm": ("batch1", "batch2"), "_scaled_mm": ("self", "mat2"),
    "mv": ("self", "vec"), "addmv": ("mat", "vec"), "dot": ("self", "tensor"), "vdot": ("self", "other"),
    "addmm_": ("mat1", "mat2"), "baddbmm_": ("batch1", "batch2"), "_addmm_activation": ("mat1", "mat2"),
}  # fmt: skip
"""Names of the factors among the arguments, by operator."""


def product(call: CalledOperator) -> list[RecordedWork] | None:
    """The product of an operator; None if it is no product, an empty list without elements."""
    names = _FACTORS.get(call.func._opname)  # noqa: SLF001 - the name without namespace and overload
    if names is None:
        return None
    left, right = (call.tensor(name) for name in names)
    m = left.shape[-2] if left.dim() > 1 else 1
    k = left.shape[-1]
    n = right.shape[-1] if right.dim() > 1 else 1
    count = prod(left.shape[:-2]) if left.dim() > 2 else 1
    if min(m, n, k, count) == 0:
        return []
    own = left.untyped_storage() is right.untyped_storage()
    transposed = _is_transposed(left)
    return [Product(m=m, n=n, k=k, count=count, dtype=dtype_of(left), transposed=transposed, own_factor=own)]


def _is_transposed(matrix: Tensor) -> bool:
    """Whether columns lie together in memory."""
    return matrix.dim() > 1 and matrix.stride(-2) == 1 and matrix.stride(-1) > 1
