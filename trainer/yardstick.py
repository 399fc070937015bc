"""Fixed pieces of work, timed now and then while something else is measured: how fast the machine is just now.

Cores of a shared machine are not equally fast at all times, and not in all they do: a product may take as long as ever
while lookups take twice as long. So there is a piece for each kind of work.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist

from trainer.passing import Passing
from trainer.small_step import SmallStep

PAGE_BYTES = 4096
"""Of small pages (x86)."""
FAR_ROWS, FAR_LOOKUPS = 2**19, 2**11
"""Rows of 256 B, 128 MB, and how many are gathered each time: few, for they take others' place in caches."""
REPEATS = 5
"""Times that a piece is done each time."""


class Yardstick:
    """The pieces, and how long each took whenever it was laid on, `REPEATS` times each, in seconds.

    Of a process of one thread it is the CPU time, for its core may be another's meanwhile; of several threads, which
    work at once, and of what ranks do together it is the time on the wall.
    """

    def __init__(self, *, own_cores: bool = False) -> None:
        """Make their data: 128 MB, and 13 MB one after the other from begins of pages on, the same in every process.

        Args:
            own_cores: whether every rank has cores that no other has.
        """
        self._memory = torch.zeros(2**22)
        self._taken = -self._memory.data_ptr() // 4 % (PAGE_BYTES // 4)
        self._a, self._product = self._next(256, 256).fill_(0.5), self._next(256, 256)
        self._table, self._gathered = self._next(2**14, 64), self._next(2**14, 64)
        self._rows = torch.randint(2**14, (2**14,), generator=torch.Generator().manual_seed(0))
        self._from, self._to, self._few = self._next(2**19), self._next(2**19), self._next(16)
        self._message, self._answer = self._next(2**14), self._next(2**14)
        self._far = torch.full((FAR_ROWS, 64), 0.5)
        self._drawn = torch.randint(FAR_ROWS, (FAR_ROWS,), generator=torch.Generator().manual_seed(1))
        self._found, self._begin = self._next(FAR_LOOKUPS, 64), 0
        clock = time.perf_counter if torch.get_num_threads() > 1 else time.thread_time
        pieces: dict[str, Callable[[], object]] = {
            "product": lambda: torch.mm(self._a, self._a, out=self._product),
            "gather": lambda: torch.index_select(self._table, 0, self._rows, out=self._gathered),
            "copy": lambda: self._to.copy_(self._from),
            "far": self._look_far,
            "calls": self._calls,
            "step": SmallStep(self._far, self._drawn),
        }
        self._pieces = {name: (clock, piece) for name, piece in pieces.items()}
        if dist.is_initialized() and dist.get_backend() == "gloo" and dist.get_world_size() > 1:
            ranks = dist.get_world_size()
            size = len(self._message) // ranks * ranks
            into, out = self._answer[:size], self._message[:size]
            exchange = partial(dist.all_to_all_single, into, out)
            self._pieces[f"exchange_{ranks}"] = time.perf_counter, exchange  # waits for the others
        self._passing = Passing() if own_cores and len(self._pieces) > len(pieces) else None
        self.times_s: dict[str, list[float]] = {name: [] for name in self._pieces}
        if self._passing and self._passing.has_partner:
            self.times_s["passing"] = []

    def lay_on(self) -> None:
        """Time every piece now; all ranks do it at the same place of their work."""
        for name, (clock, piece) in self._pieces.items():
            for _ in range(REPEATS):
                begin = clock()
                piece()
                self.times_s[name].append(clock() - begin)
        if self._passing and self._passing.has_partner:  # the exchange was last: both are there
            found = [self._passing.round_s() for _ in range(REPEATS)]
            self.times_s["passing"] += [seconds for seconds in found if math.isfinite(seconds)]

    def _next(self, *shape: int) -> torch.Tensor:
        """A zero tensor that begins a page: how fast memory is depends on where it lies in one."""
        count = math.prod(shape)
        place = self._memory[self._taken : self._taken + count].view(shape)
        self._taken += -(-4 * count // PAGE_BYTES) * PAGE_BYTES // 4
        return place

    def _calls(self) -> None:
        for _ in range(20):
            self._few.add_(1.0)

    def _look_far(self) -> None:
        """Gather rows that no cache has: others each time."""
        drawn = self._drawn[self._begin : self._begin + FAR_LOOKUPS]
        self._begin = (self._begin + FAR_LOOKUPS) % FAR_ROWS
        torch.index_select(self._far, 0, drawn, out=self._found)
