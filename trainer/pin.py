"""Which cores each rank of a host runs on. Needs no PyTorch.

Of a shared machine one core may be slower than another for minutes, or for good. Ranks that hold unequal shards then
wait more, or less, than they would of equal cores, by chance. So they change cores between blocks of iterations.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

UNKNOWN = -1
"""In place of a core where the system does not pin processes."""
THREADS = Path("/proc/self/task")
"""Has a folder for each thread of this process (Linux)."""


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


def turns(cores: Sequence[int], ranks: int) -> list[tuple[tuple[int, ...], ...]]:
    """Cores that each rank is on by turns ``[ranks, turns]``: its own of `shares`, then those of the next ranks.

    Ranks that share a core go on together. Where there is one share of cores for all, nobody goes anywhere.
    """
    each = shares(cores, ranks)
    places = list(dict.fromkeys(each))
    begin = [places.index(share) for share in each]
    return [tuple(places[(first + turn) % len(places)] for turn in range(len(places))) for first in begin]


def pin(cores: Sequence[int]) -> bool:
    """Keep this process, and threads it starts from now on, on ``cores``; False where the system cannot."""
    if not hasattr(os, "sched_setaffinity"):
        return False
    os.sched_setaffinity(0, cores)
    return True


class CoreTurns:
    """Keeps all threads of this process on one share of cores after the other.

    Attributes:
        core: the first core of the share that they are on; `UNKNOWN` where the system does not pin them.
    """

    def __init__(self, places: Sequence[Sequence[int]]) -> None:
        """Begin on the first of ``places``; of less than two, stay where they are."""
        self._places = places if len(places) > 1 and hasattr(os, "sched_setaffinity") else ()
        self._turn: int | None = None
        self.core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else UNKNOWN
        self.go_to(0)

    def go_to(self, turn: int) -> bool:
        """Go to the share of a turn, counted from 0; returns whether that is another one."""
        if not self._places or turn % len(self._places) == self._turn:
            return False
        self._turn = turn % len(self._places)
        cores = self._places[self._turn]
        for thread in [int(folder.name) for folder in THREADS.iterdir()] if THREADS.is_dir() else [0]:
            with suppress(ProcessLookupError):  # it has ended
                os.sched_setaffinity(thread, cores)
        self.core = cores[0]
        return True
