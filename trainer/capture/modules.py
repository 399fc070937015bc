"""Paths of modules while a step runs, such as ``layers.3.self_attn``, forward and backward."""

from __future__ import annotations

from torch.distributed._tools.mod_tracker import ModTracker

_GLOBAL = "Global"


class ModulePaths(ModTracker):
    """Knows the module whose operators run; the outermost module has an empty path."""

    def now(self) -> str:
        """Path of the innermost module."""
        paths = [path for path in self.parents if path != _GLOBAL]
        if not paths:
            return ""
        return max(paths, key=lambda path: path.count(".")).partition(".")[2]
