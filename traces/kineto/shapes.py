"""Shapes of operators, as ``Input Dims`` and ``Input type`` give them (``record_shapes=True``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

from simulator.operators import Gemm
from simulator.precisions import Precision
from traces.collective_args import DTYPES
from traces.kernel_classes import precision_of

GEMMS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"})
"""Operators whose last two inputs of two or three extents are the factors."""
_LOOKUPS: Mapping[str, tuple[int, int]] = {
    "fbgemm::split_embedding_codegen_lookup": (6, 12),
    "fbgemm::dense_embedding_codegen_lookup": (2, 8),
}
"""Places of ``D_offsets`` ``[tables + 1]`` and ``offsets`` ``[bags + 1]`` among a lookup's inputs (FBGEMM's code
generator, ``embedding_backward_split_host_template.cpp`` and ``embedding_backward_dense_host.cpp``)."""
_GEMM_PRECISIONS: Mapping[str, Precision] = {"fp64": "fp64", "fp32": "fp32", "fp16": "fp16", "bf16": "bf16"}


@cache
def has_shape(name: str) -> bool:
    """Whether an operator's arguments are kept: collectives, GEMMs and embedding lookups."""
    return name.startswith(("nccl:", *_LOOKUPS)) or name in GEMMS


def gemm_of(operator: str, args: Mapping[str, Any], kernel: str) -> Gemm | None:
    """The product an operator computes; None where its inputs' extents or type do not say.

    Args:
        operator: its name.
        args: its arguments as `traces.kineto.reader` keeps them.
        kernel: the kernel that computes it; its name shows tf32.
    """
    if operator not in GEMMS:
        return None
    dims, types = args.get("dims"), args.get("types")
    factors = [shape for shape in _shapes(dims) if len(shape) in (2, 3)][-2:]
    found = DTYPES.get(str(types[0]).lower()) if isinstance(types, list) and types else None
    precision = _GEMM_PRECISIONS.get(found[0]) if found else None
    if len(factors) < 2 or precision is None:
        return None
    (*batch, m, k), (*_, k_too, n) = factors
    if k != k_too or min(m, n, k, *batch) < 1:
        return None
    if precision == "fp32" and precision_of(kernel) == "tf32":
        precision = "tf32"
    return Gemm(m=m, n=n, k=k, precision=precision, count=prod(batch))


def tables_and_bags(operator: str, args: Mapping[str, Any]) -> tuple[int, int] | None:
    """Tables of a lookup and bags of each; None where it is no lookup or its shapes do not say."""
    places = next((own for name, own in _LOOKUPS.items() if operator.startswith(name)), None)
    shapes = _shapes(args.get("dims"))
    if places is None or len(shapes) <= places[1]:
        return None
    table_shape, offset_shape = (shapes[place] for place in places)
    if len(table_shape) != 1 or len(offset_shape) != 1 or table_shape[0] < 2:
        return None
    tables, bags = table_shape[0] - 1, offset_shape[0] - 1
    return (tables, bags // tables) if bags > 0 and bags % tables == 0 else None


def _shapes(dims: Any) -> Sequence[Sequence[int]]:
    """Extents of each input; empty for those that are no tensors."""
    given = dims if isinstance(dims, list) else []
    return [s if isinstance(s, list) and all(type(n) is int for n in s) else [] for s in given]
