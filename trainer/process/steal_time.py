"""Steal time: core time of a virtual machine that its host takes. Needs no PyTorch."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

TABLE = Path("/proc/stat")
"""Linux's table of the time of each core by use."""
COLUMN = 8
"""Column of steal time, after the core's name."""


@dataclass(slots=True)
class StolenTime:
    """Steal time since the last `share`, or since it was made.

    Attributes:
        table: file in the format of `TABLE`.
    """

    cores: Sequence[int]
    table: Path = TABLE
    _since_s: float = field(init=False, repr=False)
    _stolen_s: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Begin."""
        self._since_s, self._stolen_s = time.perf_counter(), stolen_s(self.cores, self.table)

    def share(self) -> float:
        """Share of all cores' time since then; a tick of each core, which may have begun before, does not count."""
        since_s, before_s = self._since_s, self._stolen_s
        self.__post_init__()
        taken_s = self._stolen_s - before_s - len(self.cores) / os.sysconf("SC_CLK_TCK")
        return max(0.0, taken_s) / ((self._since_s - since_s) * len(self.cores))


def stolen_s(cores: Sequence[int], table: Path = TABLE) -> float:
    """Time that cores had work and the host kept them from it since the machine began, seconds; 0 without a table.

    Args:
        table: file in the format of `TABLE`.
    """
    try:
        lines = [line.split() for line in table.read_text(encoding="ascii").splitlines()]
    except OSError:
        return 0.0
    names = {f"cpu{core}" for core in cores}
    ticks = sum(int(line[COLUMN]) for line in lines if line and line[0] in names and len(line) > COLUMN)
    return ticks / float(os.sysconf("SC_CLK_TCK"))
