"""How far cores of ranks are from each other: how long what one writes is under way to the other."""

from __future__ import annotations

import mmap
import tempfile
import time
from pathlib import Path

import torch.distributed as dist

ROUNDS = 200
"""To and fro, of which the mean is told."""
LINE_BYTES = 128
"""Apart from each other, two bytes are in no line of a cache together."""
LOOKS = 100_000
"""At a byte that a partner who has lost its core does not write, after which a rank goes on."""


class Passing:
    """Ranks of a host by twos hand a number to and fro through memory that both have; the last of an odd number waits.

    Between cores under one cache that takes a fraction of a microsecond, much of it the interpreter's, else two to
    three times as long. The host of a virtual machine moves its cores, and which it is nothing else tells
    (`docs/decisions/129`).
    """

    def __init__(self) -> None:
        """Share memory with all ranks of the process group, which are on this host, on a core each."""
        self._rank, ranks = dist.get_rank(), dist.get_world_size()
        name: list[str | None] = [None]
        if self._rank == 0:
            with tempfile.NamedTemporaryFile(prefix="dlrmsim-passing-", delete=False) as file:
                file.truncate(2 * LINE_BYTES * ranks)
                name = [file.name]
        dist.broadcast_object_list(name)
        shared = Path(str(name[0]))
        with shared.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        dist.barrier()
        if self._rank == 0:
            shared.unlink()
        self._calls = 0
        self.has_partner = self._rank ^ 1 < ranks

    def round_s(self) -> float:
        """The mean time there and back, seconds; ranks call it at the same place of their work."""
        begin, first = time.perf_counter(), self._calls * (1 + ROUNDS)  # of both ranks, whatever became of other calls
        self._calls += 1
        for number in range(first, first + 1 + ROUNDS):
            if number == first + 1:
                begin = time.perf_counter()
            if not self._hand(1 + number % 250):
                return float("nan")
        return (time.perf_counter() - begin) / ROUNDS

    def _hand(self, number: int) -> bool:
        """One round; False where the partner does not answer."""
        memory = self._memory
        mine, other = LINE_BYTES * self._rank, LINE_BYTES * (self._rank ^ 1)
        if self._rank % 2 == 0:
            memory[mine] = number
        for _ in range(LOOKS):
            if memory[other] == number:
                break
        else:
            return False
        if self._rank % 2:
            memory[mine] = number
        return True
