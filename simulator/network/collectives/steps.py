"""What algorithms in steps share: one stage per step, in which the messages of all members move at the same time.

A step takes ``hop + bytes / rate``: a hop inside the node when all partners are there, else over the network with a
post. Ranks are numbered as they sit on the machine, so small distances stay in a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from simulator.network.collectives.algorithm import Latency, Stage
from simulator.network.membership import Block
from simulator.network.patterns import Messages, shift
from simulator.operators import FloatArray


def steps(block: Block, sizes: Iterable[tuple[int, FloatArray]], *, exchange: bool) -> tuple[Stage, ...]:
    """One stage for each (distance, bytes ``[a, 1]``), one after the other.

    Args:
        block: the members.
        sizes: of the steps in their order.
        exchange: partners are i and i xor distance (a power of two of members); else i sends to (i + distance) mod n.
    """
    return in_turn(block, (shift(block.size, d, amount, exclusive=exchange) for d, amount in sizes))


def in_turn(block: Block, messages: Iterable[Messages], starts: float = 1.0) -> tuple[Stage, ...]:
    """One stage for each step's messages, one after the other; the first pays ``starts`` base latencies."""
    return tuple(
        Stage(step_latency(block, step, starts if number == 0 else 0.0), step) for number, step in enumerate(messages)
    )


def step_latency(block: Block, step: Messages, starts: float = 1.0) -> Latency:
    """A hop and a post where a message leaves the domain; else a hop inside it."""
    if hops_out(block, step):
        return Latency(starts=starts, network_hops=1, posts=1)
    return Latency(starts=starts, near_hops=1)


def hops_out(block: Block, step: Messages) -> int:
    """How many of the messages leave their domain, in the instance with most."""
    slot = block.domains.slot
    return int((slot[:, step.sender] != slot[:, step.receiver]).sum(axis=1).max())


def down_the_tree(members: int, amount: FloatArray, *, parts: bool) -> Iterator[Messages]:
    """Steps of a binomial tree from member 0: at distances 2^k, ..., 2, 1 whoever has it sends to i + distance.

    Args:
        members: n, how many.
        amount: of a message ``[a, 1]``; with ``parts`` of the part of one member.
        parts: a message holds what the receiver and those below it get, not everything.
    """
    for distance in reversed(distances(members)):
        sender = np.arange(0, members - distance, 2 * distance)
        below = np.minimum(distance, members - distance - sender) if parts else np.ones(len(sender))
        yield Messages(sender, sender + distance, amount * below)


def up_the_tree(members: int, amount: FloatArray, *, parts: bool) -> Iterator[Messages]:
    """The same steps backwards: what was sent is received."""
    for step in reversed(list(down_the_tree(members, amount, parts=parts))):
        yield Messages(step.receiver, step.sender, step.bytes)


def is_power_of_two(block: Block) -> bool:
    """Whether exchanges in pairs reach everybody."""
    return block.size & (block.size - 1) == 0


def distances(members: int) -> list[int]:
    """1, 2, 4, ... below the number of members."""
    return [1 << k for k in range((members - 1).bit_length())]
