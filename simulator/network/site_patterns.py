"""Rings inside sites and between them, for collectives over several sites."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.network.blocks import Block
from simulator.network.destinations import Direct, Messages, first_of
from simulator.network.patterns import Rings
from simulator.network.traffic import Traffic, both_ways
from simulator.operators import FloatArray
from simulator.program import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class RingsInSites(Rings):
    """Rings among the members of each site; ``bytes [a, 1]`` or ``[I, n]``."""

    def crossing(self, block: Block, label: IntArray) -> Traffic:
        """1 / k of the bytes in each label of k members; nothing for a single member."""
        count = block.grouping(label).count
        return both_ways(np.where(count < site_members(block), self.bytes / count, 0.0))

    def messages(self, block: Block) -> Messages:  # noqa: ARG002 - the protocol's signature
        """Messages between sites: none."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class BetweenSites(Rings):
    """A ring or chain of sites: each site sends to the next site by number, each of its k members 1 / k of the bytes.

    Attributes:
        closed: whether the last site sends to the first.
    """

    closed: bool = True

    def crossing(self, block: Block, label: IntArray) -> Traffic:
        """All bytes of a member, unless all members have the label."""
        count = block.grouping(label).count
        return both_ways(np.where(count < block.size, self.bytes / site_members(block), 0.0))

    def messages(self, block: Block) -> Messages:
        """All bytes from each site to the next."""
        if block.sites is None:
            return ()
        first = first_of(block.sites)
        following = np.roll(first, -1, axis=1)
        ends = (first, following) if self.closed else (first[:, :-1], following[:, :-1])
        return (Direct(*ends, self.bytes),)


def site_members(block: Block) -> FloatArray:
    """Number of members on the site of each member, itself included ``[I, n]``."""
    return np.full(block.ranks.shape, float(block.size)) if block.sites is None else block.sites.count
