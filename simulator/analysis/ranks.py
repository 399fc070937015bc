"""Ranks to look at first: the slowest, the fastest, the median and the first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.analysis.breakdown import Breakdown

SLOWEST = "waits least for the others (of equals, computes most)"
"""Meaning of the slowest rank, which need not be the one with most computation."""


@dataclass(frozen=True, slots=True)
class ChosenRanks:
    """Global rank numbers worth a closer look."""

    slowest: int
    fastest: int
    median: int
    first: int

    def distinct(self) -> tuple[int, ...]:
        """The chosen ranks, ascending, each once."""
        return tuple(sorted({self.slowest, self.fastest, self.median, self.first}))


def choose_ranks(breakdown: Breakdown) -> ChosenRanks:
    """Choose ranks by how long they wait for others.

    The slowest rank is the one the others wait for: it waits least itself (then: computes most; then: lowest
    number). The fastest is at the other end of this order, the median in its middle.
    """
    order = np.lexsort((breakdown.ranks, -breakdown.compute_ps, breakdown.waiting_ps))
    ranks = breakdown.ranks[order]
    return ChosenRanks(
        slowest=int(ranks[0]),
        fastest=int(ranks[-1]),
        median=int(ranks[(len(ranks) - 1) // 2]),
        first=int(ranks.min()),
    )
