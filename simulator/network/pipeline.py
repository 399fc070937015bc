"""The part of a stage's time that its pipeline does not hide.

A stage takes ``starts + latency + work``: work is the time of its busiest link, and with h seconds of hops

    latency = max(h, h + path - work)                  or, where pieces hide hops, max(own, rounds x h + path - work)
    path = near x near_s + network x network_s + transfer x work

where ``path`` is the time of one piece over all its hops. The whole message passing at once is ``path = work``: latency
is then h. A tree has to fill first, which is above h. Where the pieces of a ring follow each other, hops are hidden
behind the transfers of the others, all but what the members' own threads do for each, ``own``: as much as for a hop
inside a node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.operators import FloatArray


@dataclass(frozen=True, slots=True)
class Pipelined:
    """Factors of the module's formula.

    Attributes:
        near: factor of the seconds of links inside a node.
        network: the same of links between nodes.
        transfer: factor of the work.
        rounds: times that the hops are paid.
        hides: whether transfers of other pieces hide the hops.
        waits: hops between nodes for which the transfers wait at least, one after the other.
        piece_bytes: size of a message between nodes; 0 where it does not matter.
    """

    near: float = 0.0
    network: float = 0.0
    transfer: float = 1.0
    rounds: float = 1.0
    hides: bool = False
    waits: float = 0.0
    piece_bytes: float = 0.0

    def latency_s(
        self, hops_s: float, own_s: float, link_s: tuple[FloatArray, FloatArray], work_s: FloatArray
    ) -> FloatArray:
        """The latency beside ``work_s``; ``link_s`` are the seconds of links inside nodes and between them."""
        factors = (self.near, self.network, self.transfer, self.rounds)
        return latency_s(factors, hops_s, own_s if self.hides else hops_s, link_s, work_s)


WHOLE = Pipelined()


def latency_s(
    factors: tuple[FloatArray | float, ...],
    hops_s: FloatArray | float,
    least_s: FloatArray | float,
    link_s: tuple[FloatArray, FloatArray],
    work_s: FloatArray,
) -> FloatArray:
    """The module's formula for numbers or columns of them; factors near, network, transfer, rounds."""
    near, network, transfer, rounds = factors
    path_s = near * link_s[0] + network * link_s[1] + transfer * work_s
    found: FloatArray = np.maximum(least_s, rounds * hops_s + path_s - work_s)
    return found
