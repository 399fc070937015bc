"""Paths of modules while a step runs, such as ``layers.3.self_attn``, forward and backward."""

from __future__ import annotations

from torch.distributed._tools.mod_tracker import ModTracker

_GLOBAL = "Global"
_WRAPPERS = ("CapturedDataParallel",)
"""Classes whose only module is the user's one."""


class ModulePaths(ModTracker):
    """Knows the module whose operators run; the outermost module has an empty path."""

    def __init__(self) -> None:
        """Start outside any module."""
        super().__init__()  # type: ignore[no-untyped-call]

    def now(self) -> str:
        """Path of the innermost module."""
        paths = [path for path in self.parents if path != _GLOBAL]
        if not paths:
            return ""
        root, _, path = max(paths, key=lambda path: path.count(".")).partition(".")
        return path.removeprefix("module").removeprefix(".") if root in _WRAPPERS else path
