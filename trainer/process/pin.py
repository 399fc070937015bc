"""Cores of each rank of a host. Needs no PyTorch."""

from __future__ import annotations

import os
from collections.abc import Sequence


def usable_cores() -> tuple[int, ...]:
    """Cores that this process may use, ascending."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def shares(cores: Sequence[int], ranks: int) -> list[tuple[int, ...]]:
    """Cores of each rank ``[ranks]``: equally many neighbours each; with more ranks than cores they take turns."""
    if ranks > len(cores):
        return [(cores[rank % len(cores)],) for rank in range(ranks)]
    each = len(cores) // ranks
    return [tuple(cores[rank * each : (rank + 1) * each]) for rank in range(ranks)]


def pin(cores: Sequence[int]) -> bool:
    """Keep this process, and threads it starts from now on, on ``cores``; False where the system cannot."""
    if not hasattr(os, "sched_setaffinity"):
        return False
    os.sched_setaffinity(0, cores)
    return True
