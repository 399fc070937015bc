"""Which cores each rank of a host runs on. Needs no PyTorch.

Of a shared machine one core may be slower than another for minutes, or for good. Ranks that hold unequal shards then
wait more, or less, than they would of equal cores, by chance. So they change cores between blocks of iterations.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

UNKNOWN = -1
"""In place of a core where the system does not pin processes."""
THREADS = Path("/proc/self/task")
"""Has a folder for each thread of this process (Linux)."""
CPUS = Path("/sys/devices/system/cpu")
"""Has a folder for each core, in which one names its NUMA node (Linux)."""


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


def core_turns(
    cores: Sequence[int], ranks: int, node_of: Mapping[int, int] | None = None
) -> list[tuple[tuple[int, ...], ...]]:
    """Cores that each rank is on by turns ``[ranks, turns]``: its own of `shares`, then those of the next ranks.

    Ranks that share a core go on together. Nobody goes to another NUMA node, where its memory would be far. Where there
    is one share of cores for all, nobody goes anywhere.

    Args:
        cores: that the ranks may use.
        ranks: how many there are.
        node_of: NUMA node of each core; None: as the system tells.
    """
    each, node_of = shares(cores, ranks), numa_nodes(cores) if node_of is None else node_of
    found = []
    for share in each:
        near = {node_of[core] for core in share}
        places = [place for place in dict.fromkeys(each) if {node_of[core] for core in place} == near]
        first = places.index(share)
        found.append(tuple(places[first:] + places[:first]))
    return found


def numa_nodes(cores: Sequence[int]) -> dict[int, int]:
    """The NUMA node of each core; 0 where the system does not tell."""
    told = {core: [*(CPUS / f"cpu{core}").glob("node[0-9]*")] for core in cores}
    return {core: int(nodes[0].name.removeprefix("node")) if nodes else 0 for core, nodes in told.items()}


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
