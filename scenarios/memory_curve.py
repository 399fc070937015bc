"""Memory of a rank over the tasks of a step, a section of the summary of families that know it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MEMORY_CURVE_KEY = "memory_curve"
"""Key of the summary: a `MemoryCurve`."""


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """Device memory of a rank at tasks of a step, in their order.

    Attributes:
        rank: the fullest rank.
        ranks: number of ranks with the same memory.
        tasks: numbers of the tasks ``[N]``.
        names: their names ``[N]``: module path and operator.
        bytes: category -> bytes at each of them ``[N]``.
        peak: place of the peak among them.
        module: path of the module at the peak; empty: outside all modules.
        capacity_bytes: usable memory of a rank.
    """

    rank: int
    ranks: int
    tasks: Sequence[int]
    names: Sequence[str]
    bytes: Mapping[str, Sequence[float]]
    peak: int
    module: str
    capacity_bytes: float

    @property
    def totals(self) -> list[float]:
        """Bytes of all categories at each task ``[N]``."""
        return [sum(at) for at in zip(*self.bytes.values(), strict=True)]
