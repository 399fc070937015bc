"""A call of an operator, with its arguments by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from trainer.capture.tensors import bytes_of, tensors_in


@lru_cache(maxsize=4096)
def _argument_names(func: OpOverload) -> tuple[str, ...]:
    return tuple(argument.name for argument in func._schema.arguments)  # noqa: SLF001 - no other access to a schema


@lru_cache(maxsize=4096)
def _written_names(func: OpOverload) -> frozenset[str]:
    arguments = func._schema.arguments  # noqa: SLF001
    return frozenset(a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write)


@dataclass(frozen=True)
class CalledOperator:
    """An operator that has been called.

    Attributes:
        func: the operator's overload.
        result: tensors that it returned.
    """

    func: OpOverload
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    result: Any

    @property
    def name(self) -> str:
        """Name without the overload, such as ``aten.addmm``."""
        return f"{self.func.namespace}.{self.func._opname}"  # noqa: SLF001

    @cached_property
    def given(self) -> dict[str, Any]:
        """Arguments by name, defaults included."""
        names = _argument_names(self.func)
        found = dict(zip(names, self.args, strict=False)) | dict(self.kwargs)
        for argument in self.func._schema.arguments:  # noqa: SLF001
            found.setdefault(argument.name, argument.default_value)
        return found

    def tensor(self, name: str) -> Tensor:
        """The tensor of an argument."""
        found: Tensor = self.given[name]
        return found

    @cached_property
    def written(self) -> list[Tensor]:
        """Tensors that the operator changes, then new ones."""
        changed = [t for name in _written_names(self.func) for t in tensors_in(self.given[name])]
        known = {id(tensor) for tensor in changed}
        return [*changed, *(t for t in tensors_in(self.result) if id(t) not in known)]

    @cached_property
    def read(self) -> list[Tensor]:
        """Tensors that the operator reads, without tensors that it only overwrites."""
        name = self.func._opname  # noqa: SLF001
        if name.startswith("new_") or name.endswith("_like"):
            return []  # of the tensor they have the shape alone
        skipped = _written_names(self.func) if self.overwrites else frozenset()
        values = {name: value for name, value in self.given.items() if name not in skipped}
        return list(_distinct(tensors_in(values)))

    @property
    def overwrites(self) -> bool:
        """Whether changed tensors are written without being read."""
        return self.func._opname in _OVERWRITING or "out" in _written_names(self.func)  # noqa: SLF001

    @property
    def read_bytes(self) -> float:
        """Bytes of all that is read."""
        return sum(map(bytes_of, self.read))

    @property
    def write_bytes(self) -> float:
        """Bytes of all that is written."""
        return sum(map(bytes_of, self.written))

    @property
    def pointwise(self) -> bool:
        """Whether PyTorch marks the operator as element-wise."""
        return torch.Tag.pointwise in self.func.tags


_OVERWRITING = frozenset(
    {"copy_", "zero_", "fill_", "uniform_", "normal_", "random_", "bernoulli_", "exponential_", "_foreach_zero_",
     "_foreach_copy_", "trunc_normal_", "log_normal_", "cauchy_", "geometric_"}
)  # fmt: skip
"""Operators whose result does not depend on the previous contents of the tensor."""


def _distinct(tensors: Iterator[Tensor]) -> Iterator[Tensor]:
    seen: set[int] = set()
    for tensor in tensors:
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield tensor
