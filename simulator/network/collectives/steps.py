"""What algorithms in steps share: one stage per step, in which every member has one partner.

A step at distance d takes ``hop + bytes / rate``: a hop inside the node when all partners are there, else over the
network with a post. Ranks are numbered as they sit on the machine, so small distances stay in a node.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from simulator.network.collectives.algorithm import Latency, Stage
from simulator.network.membership import Block
from simulator.network.patterns import Shifts
from simulator.operators import FloatArray


def steps(block: Block, sizes: Iterable[tuple[int, FloatArray]], *, exchange: bool) -> tuple[Stage, ...]:
    """One stage for each (distance, bytes ``[a, 1]``), one after the other.

    Args:
        block: the members.
        sizes: of the steps in their order.
        exchange: partners are i and i xor distance (a power of two of members); else i sends to (i + distance) mod n.
    """
    stages = []
    for number, (distance, amount) in enumerate(sizes):
        starts = 1.0 if number == 0 else 0.0
        far = _leaves_the_domain(block, distance, exchange=exchange)
        latency = Latency(starts=starts, network_hops=1, posts=1) if far else Latency(starts=starts, near_hops=1)
        stages.append(Stage(latency, Shifts(((distance, amount),), exclusive=exchange)))
    return tuple(stages)


def _leaves_the_domain(block: Block, distance: int, *, exchange: bool) -> bool:
    slot, member = block.domains.slot, np.arange(block.size)
    partner = member ^ distance if exchange else (member + distance) % block.size
    return bool(np.any(slot[:, partner] != slot))


def is_power_of_two(block: Block) -> bool:
    """Whether exchanges in pairs reach everybody."""
    return block.size & (block.size - 1) == 0


def doublings(block: Block) -> list[int]:
    """1, 2, 4, ... below the number of members."""
    return [1 << k for k in range((block.size - 1).bit_length())]
