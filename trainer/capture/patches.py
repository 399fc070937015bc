"""Names of PyTorch that a capture replaces while it runs, each with a stand-in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, **values: Any) -> Iterator[None]:
    """Attributes of a module or class replaced inside the block; names that it lacks are left out."""
    before = {name: getattr(owner, name) for name in values if hasattr(owner, name)}
    try:
        for name in before:
            setattr(owner, name, values[name])
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextmanager
def replaced_everywhere(name: str, original: Any, stand_in: Any) -> Iterator[None]:
    """A name replaced in all modules of PyTorch that have imported it, inside the block."""
    with ExitStack() as stack:
        for key, module in sorted(sys.modules.items()):
            if key.split(".")[0] == "torch" and vars(module).get(name) is original:
                stack.enter_context(replaced(module, **{name: stand_in}))
        yield
