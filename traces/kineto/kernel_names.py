"""Names of kernels short enough to read."""

from __future__ import annotations

from functools import cache

LONGEST_NAME = 80
"""Characters of a kernel's signature that name its task; `simulator.operators.Measured.name` has it whole."""


@cache
def short_name(signature: str) -> str:
    """A kernel's signature without return type and arguments, at most `LONGEST_NAME` characters."""
    name = signature.removeprefix("void ")
    depth, end = 0, len(name)
    for place, char in enumerate(name):
        depth += {"<": 1, ">": -1}.get(char, 0)
        if char == "(" and depth <= 0 and place and not name.startswith("Mem"):
            end = place
            break
    return name[:end][:LONGEST_NAME]
