"""Device memory over a captured step, by category, from the storages that operators make.

A storage lives from the task at which it first appears to the task at which nothing holds it any more. Its category
follows from how it came about: parameters and buffers of modules, gradients and state of optimizers, results of the
forward pass (activations), buffers of collectives, and temporary ones.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trainer.capture.tensors import is_sparse
from workloads.captured.records import MemoryPeak

Category: TypeAlias = Literal[
    "parameters", "buffers", "inputs", "gradients", "optimizer_state", "activations", "communication", "temporary"
]
CATEGORIES: tuple[Category, ...] = (
    "parameters", "buffers", "inputs", "optimizer_state", "gradients", "activations", "communication", "temporary",
)  # fmt: skip

BLOCK_BYTES = 512
"""Bytes to which PyTorch's caching allocator rounds sizes up (c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize)."""

SAMPLES = 2000
"""Most points of the curve that a job keeps."""

_OF_SECTION: dict[str, Category] = {
    "build": "inputs", "forward": "activations", "backward": "temporary", "optimizer": "temporary",
}  # fmt: skip


@dataclass(slots=True)
class Life:
    """A storage, or the time in which it has one size.

    Attributes:
        born: number of the task at which it appears; -1: it was there before the step.
        died: number of the task before which it is gone; None: it lives on.
    """

    bytes: float
    category: Category
    section: str
    born: int
    died: int | None = None


@dataclass(slots=True)
class MemoryBook:
    """Storages of a rank; ``now`` is the number of the next task."""

    now: int = 0
    lives: list[Life] = field(default_factory=list)
    _open: weakref.WeakKeyDictionary[Any, Life] = field(default_factory=weakref.WeakKeyDictionary)

    def see(self, tensors: Iterable[Tensor], section: str) -> None:
        """Note storages that are new."""
        for tensor in tensors:
            if tensor.device.type == "meta":
                continue
            parts = (tensor._values(), tensor._indices()) if is_sparse(tensor) else (tensor,)  # noqa: SLF001
            for part in parts:
                storage = part.untyped_storage()
                if storage not in self._open:
                    self._begin(storage, _OF_SECTION.get(section, "activations"), section)

    def mark(self, tensor: Tensor | None, category: Category) -> None:
        """State the category of a tensor's storage."""
        life = self._life(tensor)
        if life is not None:
            life.category = category

    def mark_input(self, tensor: Tensor | None, category: Category) -> None:
        """State the category of a storage that was there before the first step and has no other one."""
        life = self._life(tensor)
        if life is not None and life.category == "inputs":
            life.category = category

    def mark_new(self, tensor: Tensor, category: Category) -> None:
        """State the category of a storage that the forward or backward pass has made."""
        life = self._life(tensor)
        if life is not None and life.category in ("activations", "temporary"):
            life.category = category

    def resized(self, storage: Any) -> None:
        """Note the new size of a storage."""
        life = self._open.get(storage)
        if life is not None and life.bytes != _rounded(storage.nbytes()):
            life.died = self.now
            self._begin(storage, life.category, life.section)

    def begin_step(self) -> None:
        """Begin the recorded step: storages so far exist before it."""
        self.now = 0
        self.lives = [life for life in self.lives if life.died is None]
        for life in self.lives:
            life.born = -1
            if life.section == "optimizer" and life.category == "temporary":
                life.category = "optimizer_state"

    def peak(self, tasks: int, module_of: Any) -> MemoryPeak:
        """Bytes by category at each of ``tasks`` tasks; ``module_of`` gives the path of a task's module."""
        curves = {category: np.zeros(tasks + 1) for category in CATEGORIES}
        for life in self.lives:
            curve = curves[life.category]
            curve[max(life.born, 0)] += life.bytes
            if life.died is not None and life.died < tasks + 1:
                curve[life.died] -= life.bytes
        held = {name: np.cumsum(curve)[:-1] if tasks else np.cumsum(curve) for name, curve in curves.items()}
        total = np.sum(list(held.values()), axis=0)
        top = int(np.argmax(total))
        points = _points(len(total), top)
        used = [name for name in CATEGORIES if held[name].any()]
        return MemoryPeak(
            peak={name: float(held[name][top]) for name in used},
            task=top,
            module=module_of(top),
            tasks=tuple(points.tolist()),
            bytes={name: tuple(held[name][points].tolist()) for name in used},
        )

    def _life(self, tensor: Tensor | None) -> Life | None:
        """The storage of a tensor; of one that ranks share, the own part."""
        if tensor is None:
            return None
        own = getattr(tensor, "_local_tensor", tensor)
        return None if is_sparse(own) else self._open.get(own.untyped_storage())

    def _begin(self, storage: Any, category: Category, section: str) -> None:
        life = Life(_rounded(storage.nbytes()), category, section, self.now)
        self.lives.append(life)
        self._open[storage] = life
        weakref.finalize(storage, self._end, life)

    def _end(self, life: Life) -> None:
        if life.died is None:
            life.died = self.now


def _rounded(size: int) -> float:
    return float(-(-size // BLOCK_BYTES) * BLOCK_BYTES)


def _points(count: int, top: int) -> NDArray[np.int64]:
    """Numbers of tasks that are kept: evenly spaced ones, and the peak."""
    spaced = np.linspace(0, count - 1, min(count, SAMPLES)).round().astype(np.int64)
    return np.unique(np.append(spaced, top))
