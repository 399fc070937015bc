"""Routes between sockets that have links to some others of their node only: which links messages pass.

A message takes the shortest ways, in equal parts where there are several. A pattern's share of the sockets' ports is
its time with all links at hand (port rates alone) over its time on the links that it passes:

    share = busiest port's bytes / max over links of (bytes on the link / part of a port that the link is)

All pairs alike, each with one unit, make k - 1 the numerator; of a ring, in rank order, each member sends one unit to
the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.network.patterns import AllPairs, NearAndFar, Pattern, Sends, Together
from simulator.operators import FloatArray
from simulator.program import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Shortest ways between the sockets of a node.

    Attributes:
        load: part of a pair's bytes that passes each directed link ``[s, s, L]``.
        part: part of a socket's port that each directed link is ``[L]``.
    """

    load: FloatArray
    part: FloatArray

    @staticmethod
    def of(sockets: int, links: Sequence[tuple[int, int, int]]) -> Routes:
        """The routes of a node.

        Args:
            links: two sockets, and how many links join them.
        """
        count = np.zeros((sockets, sockets))
        for one, other, number in links:
            count[one, other] = count[other, one] = number
        near = count > 0
        ways, hops = _shortest(near.astype(np.float64))
        ends = np.argwhere(near)
        load = np.zeros((sockets, sockets, len(ends)))
        for link, (start, end) in enumerate(ends.tolist()):
            passed = hops[:, start, None] + 1 + hops[None, end, :] == hops
            load[..., link] = np.where(passed, ways[:, start, None] * ways[None, end, :] / np.maximum(ways, 1.0), 0.0)
        port = count.sum(axis=1).max()
        return Routes(load, count[near] / port)

    def share(self, pattern: Pattern, sockets: IntArray, members: IntArray) -> float:
        """Part of the sockets' ports that a pattern can use, 0 to 1.

        Args:
            sockets: sockets of the members ``[k]``.
            members: their positions in the instance ``[k]``, ascending.
        """
        if isinstance(pattern, Together):
            return min(self.share(part, sockets, members) for part in pattern.parts)
        return self._of_amounts(_amounts(pattern, members), sockets)

    def _of_amounts(self, amounts: FloatArray, sockets: IntArray) -> float:
        """The share of bytes from each member to each other ``[k, k]``."""
        busiest = max(float(amounts.sum(axis=0).max()), float(amounts.sum(axis=1).max()))
        loads = np.tensordot(amounts, self.load[np.ix_(sockets, sockets)], axes=2) / self.part
        slowest = float(loads.max())
        return min(1.0, busiest / slowest) if slowest > 0.0 else 1.0


def _amounts(pattern: Pattern, members: IntArray) -> FloatArray:
    """Relative bytes from each member to each other ``[k, k]``."""
    count = len(members)
    if isinstance(pattern, AllPairs | NearAndFar):
        return 1.0 - np.eye(count)
    found: FloatArray = np.zeros((count, count))
    if isinstance(pattern, Sends):
        here = np.isin(pattern.sender, members) & np.isin(pattern.receiver, members)
        here &= pattern.sender != pattern.receiver
        size = np.broadcast_to(pattern.bytes, (len(pattern.bytes), len(pattern.sender))).max(axis=0)[here]
        np.add.at(found, tuple(np.searchsorted(members, end[here]) for end in (pattern.sender, pattern.receiver)), size)
        return found
    each = np.arange(count)
    found[each, (each + 1) % count] = 1.0
    return found


def _shortest(near: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Number of shortest ways between sockets, and their links ``[s, s]``; every socket reaches every other."""
    size = len(near)
    hops, ways = np.where(np.eye(size) > 0, 0.0, np.inf), np.eye(size)
    reached = ways
    for length in range(1, size):
        reached = reached @ near
        new = np.isinf(hops) & (reached > 0)
        hops[new], ways[new] = length, reached[new]
    return ways, hops
