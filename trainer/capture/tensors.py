"""Tensors of a captured step: element types, sizes in memory, and numbers of the storages that they share."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor

from workloads.captured.records import DType

Storages: TypeAlias = dict[int, float]
"""Number of a storage -> bytes of it that a kernel touches."""

_DTYPES: dict[torch.dtype, DType] = {
    torch.float64: "fp64", torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16",
    torch.int64: "int64", torch.int32: "int32", torch.int16: "int16", torch.int8: "int8", torch.uint8: "int8",
    torch.bool: "bool", torch.float8_e4m3fn: "fp8", torch.float8_e5m2: "fp8", torch.complex64: "fp64",
}  # fmt: skip


def dtype_of(tensor: Tensor) -> DType:
    """Element type by the simulator's name; the float of the same size where it has none."""
    return _DTYPES.get(tensor.dtype, "fp32")


def tensors_in(values: Any) -> Iterator[Tensor]:
    """All tensors in the arguments or results of an operator, lists included."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from tensors_in(value)
    elif isinstance(values, dict):
        for value in values.values():
            yield from tensors_in(value)


def is_sparse(tensor: Tensor) -> bool:
    """Whether a tensor stores the elements of some rows only."""
    return tensor.layout == torch.sparse_coo


def bytes_of(tensor: Tensor) -> float:
    """Bytes of distinct elements: an expanded dimension counts once."""
    if is_sparse(tensor):
        return bytes_of(tensor._values()) + bytes_of(tensor._indices())  # noqa: SLF001 - coalesces nothing
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride or size == 0 else 1
    return float(count * tensor.element_size())


class StorageNumbers:
    """Numbers of storages, unique within a step; PyTorch uses addresses again."""

    def __init__(self) -> None:
        """Start without any."""
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._next = 0

    def of(self, tensor: Tensor) -> int:
        """The number of a tensor's storage; of a sparse one, of its values."""
        storage = (tensor._values() if is_sparse(tensor) else tensor).untyped_storage()  # noqa: SLF001
        number = self._numbers.get(storage)
        if number is None:
            number = self._numbers[storage] = self._next
            self._next += 1
        return number

    def alive(self) -> list[int]:
        """Numbers of the storages that something still holds."""
        return list(self._numbers.values())

    def touched(self, tensors: Iterable[Tensor]) -> Storages:
        """Bytes that a kernel touches of each storage."""
        found: Storages = {}
        for tensor in tensors:
            number, size = self.of(tensor), bytes_of(tensor)
            found[number] = max(found.get(number, 0.0), size)
        return found
