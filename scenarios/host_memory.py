"""Memory of the machine that this runs on, and its free part; limits of a container and of the process count."""

from __future__ import annotations

import os
import resource
from pathlib import Path

CGROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)
"""Limit and use of a container's memory in Linux's control groups, version 2 and 1."""


def available_memory_bytes() -> float:
    """Memory that this process may still take: free, and within its own limit (``ulimit -v``)."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return min(free_memory_bytes(), float("inf") if limit == resource.RLIM_INFINITY else float(limit))


def physical_memory_bytes() -> int:
    """Memory of the machine, or of the container when that has less."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([whole, *(limit for limit, _ in _limits())])


def free_memory_bytes() -> float:
    """Free memory of the machine or the container, bytes; infinite where the system does not report it."""
    return min([_available_bytes(), *(float(max(limit - used, 0)) for limit, used in _limits())])


def _available_bytes() -> float:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return float("inf")
    found = dict(line.split(":", 1) for line in lines)
    return float(found["MemAvailable"].split()[0]) * 1024


def _limits() -> list[tuple[int, int]]:
    """Limit and use of each control group that has a limit, bytes."""
    found = [(_number(limit), _number(used)) for limit, used in CGROUPS]
    return [(limit, used or 0) for limit, used in found if limit is not None]


def _number(file: Path) -> int | None:
    """The number in a file; None for ``max`` or where there is no such file."""
    try:
        text = file.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
