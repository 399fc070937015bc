"""Fixed pieces of work, timed now and then while something else is measured: how fast the machine is just now.

Cores of a shared machine are not equally fast at all times, and not in all they do: a product may take as long as ever
while lookups take twice as long. So there is a piece for each kind of work.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

PAGE_BYTES = 4096
"""Of small pages (x86)."""
REPEATS = 5
"""Times that a piece is done; the least counts, for what others do only ever adds time."""


class Yardstick:
    """The pieces, and how long each took whenever it was laid on."""

    def __init__(self) -> None:
        """Make their data: about 10 MB, one after the other from the begin of a page on, the same in every process."""
        self._memory = torch.zeros(2**22)
        self._taken = -self._memory.data_ptr() // 4 % (PAGE_BYTES // 4)
        self._a, self._product = self._next(256, 256).fill_(0.5), self._next(256, 256)
        self._table, self._gathered = self._next(2**14, 64), self._next(2**14, 64)
        self._rows = torch.randint(2**14, (2**14,), generator=torch.Generator().manual_seed(0))
        self._from, self._to, self._few = self._next(2**19), self._next(2**19), self._next(16)
        self._message, self._answer = self._next(2**14), self._next(2**14)
        self._pieces: dict[str, Callable[[], object]] = {
            "product": lambda: torch.mm(self._a, self._a, out=self._product),
            "gather": lambda: torch.index_select(self._table, 0, self._rows, out=self._gathered),
            "copy": lambda: self._to.copy_(self._from),
            "calls": self._calls,
        }
        if dist.is_initialized() and dist.get_backend() == "gloo" and dist.get_world_size() > 1:
            ranks = dist.get_world_size()
            size = len(self._message) // ranks * ranks
            into, out = self._answer[:size], self._message[:size]
            self._pieces[f"exchange_{ranks}"] = lambda: dist.all_to_all_single(into, out)
        self.times_s: dict[str, list[float]] = {name: [] for name in self._pieces}

    def lay_on(self) -> None:
        """Time every piece now; all ranks do it at the same place of their work."""
        for name, of_piece in self.times_s.items():
            of_piece.append(min(self._once(self._pieces[name]) for _ in range(REPEATS)))

    def _next(self, *shape: int) -> torch.Tensor:
        """A zero tensor that begins a page: how fast memory is depends on where it lies in one."""
        count = math.prod(shape)
        place = self._memory[self._taken : self._taken + count].view(shape)
        self._taken += -(-4 * count // PAGE_BYTES) * PAGE_BYTES // 4
        return place

    def _calls(self) -> None:
        for _ in range(20):
            self._few.add_(1.0)

    @staticmethod
    def _once(piece: Callable[[], object]) -> float:
        begin = time.perf_counter()
        piece()
        return time.perf_counter() - begin
