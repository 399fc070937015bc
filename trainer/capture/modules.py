"""Paths of modules while a step runs, such as ``layers.3.self_attn``, forward and backward.

PyTorch numbers the nodes of the backward graph in the order in which the forward pass makes them (as its profiler
uses them to pair both passes). A node belongs to the innermost module that was open when its number was next.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Self

import torch
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

NO_GRAPH = -1
"""Number of the backward pass while none runs."""

_WRAPPED = {
    "CapturedDataParallel": "module",
    "AveragedModel": "module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
    "OptimizedModule": "_orig_mod",
}
"""Child of wrappers that leaves no trace in paths, by class."""


class ModulePaths(ExitStack):
    """Knows the module whose operators run; the outermost module has an empty path."""

    def __init__(self) -> None:
        """Start outside any module."""
        super().__init__()
        self._paths: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._open: list[tuple[str, int]] = []
        self._first_nodes, self._owners = [0], [""]
        self._last = ""

    def __enter__(self) -> Self:
        """Follow all modules until the block ends."""
        self.callback(register_module_forward_pre_hook(self._begin).remove)
        self.callback(register_module_forward_hook(self._end, always_call=True).remove)
        return self

    def now(self) -> str:
        """Path of the innermost module."""
        graph = torch._C._current_graph_task_id()  # noqa: SLF001 - no other access to the backward pass
        path, since = self._open[-1] if self._open else ("", NO_GRAPH)
        if graph in (NO_GRAPH, since):
            return path
        node: Any = torch._C._current_autograd_node()  # noqa: SLF001
        number = node._sequence_nr() if node is not None else None  # noqa: SLF001
        if number is not None and number < _AT_THE_END:
            self._last = self._owners[bisect_right(self._first_nodes, number) - 1]
        return self._last

    def _begin(self, module: Module, _: Any) -> None:
        if module not in self._paths:
            self._paths.update(_paths_of(module, ""))
        self._open.append((self._paths[module], torch._C._current_graph_task_id()))  # noqa: SLF001
        self._note()

    def _end(self, _: Module, __: Any, ___: Any) -> None:
        if self._open:
            self._open.pop()
        self._note()

    def _note(self) -> None:
        """Nodes from here on belong to the innermost open module."""
        self._first_nodes.append(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]  # noqa: SLF001
        self._owners.append(self._open[-1][0] if self._open else "")


_AT_THE_END = 1 << 63
"""Numbers from here on belong to nodes that add up gradients, which no module makes."""


def _paths_of(module: Module, path: str) -> Iterator[tuple[Module, str]]:
    """A module and all modules in it with their paths."""
    yield module, path
    hidden = _WRAPPED.get(type(module).__name__)
    for name, child in module.named_children():
        yield from _paths_of(child, path if name == hidden else f"{path}.{name}".lstrip("."))
