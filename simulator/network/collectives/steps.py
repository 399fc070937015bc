"""Common parts of algorithms in steps: one stage per step, in which every member has at most one partner.

A step takes ``hop + bytes / rate``: a hop inside the node when all partners are there, else over the network with a
post. Ranks are numbered as they sit on the machine, so small distances stay in a node.

Exchanges in pairs need a power of two of members. With n = 2^k + r of them, the first 2 r fold first: those at even
positions give their data to their right neighbour, sit out, and get the result in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import Latency, Stage
from simulator.network.patterns import Sends
from simulator.operators import FloatArray
from simulator.program import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step.

    Attributes:
        target: position of the member that each sends to, its own where it sends nothing ``[n]``.
        bytes: bytes that each sends ``[a, 1]``, or ``[a, n]`` where they differ.
        adds: whether the receiver adds them to its own.
    """

    target: IntArray
    bytes: FloatArray
    adds: bool = False


def in_sequence(
    block: Block, steps: Sequence[Step], own_bytes: FloatArray | float = 0.0, starts: float = 1.0
) -> tuple[Stage, ...]:
    """One stage for each step; the first starts the collective and copies each member's own part.

    Args:
        steps: steps in their order.
        own_bytes: each member's own part ``[a, 1]``.
        starts: times the first pays the base latency.
    """
    stages = []
    for number, step in enumerate(steps):
        first = number == 0
        paid = starts if first else 0.0
        far = leaving(block, step.target) > 0
        latency = Latency(starts=paid, network_hops=1, posts=1) if far else Latency(starts=paid, near_hops=1)
        stages.append(
            Stage(
                latency,
                Sends(np.arange(block.size), step.target, step.bytes),
                own_bytes=own_bytes if first else 0.0,
                added_bytes=step.bytes if step.adds else 0.0,
                message_bytes=float(step.bytes.max()),
            )
        )
    return tuple(stages)


def leaving(block: Block, target: IntArray) -> int:
    """Number of members that send to another domain, in the instance with most."""
    slot = block.domains.slot
    return int((slot[:, target] != slot).sum(axis=1).max())


def shifted(block: Block, distance: int) -> IntArray:
    """Every member sends to the one ``distance`` further on ``[n]``."""
    return (np.arange(block.size) + distance) % block.size


def exchanged(block: Block, distance: int) -> IntArray:
    """Members that take part exchange with the one at ``distance`` (a power of two) among them ``[n]``."""
    part = _participants(block)
    target = np.arange(block.size)
    target[part] = part[np.arange(len(part)) ^ distance]
    return target


def folded(block: Block, inner: list[Step], size_bytes: FloatArray, *, adds: bool) -> list[Step]:
    """``inner`` between the folding of ``size_bytes [a, 1]`` and its way back, where members are no power of two."""
    extra = block.size - len(_participants(block))
    if extra == 0:
        return inner
    even = np.arange(0, 2 * extra, 2)
    inward, outward = np.arange(block.size), np.arange(block.size)
    inward[even], outward[even + 1] = even + 1, even
    return [Step(inward, size_bytes, adds), *inner, Step(outward, size_bytes)]


def down_the_tree(block: Block, amount: FloatArray, *, parts: bool) -> list[Step]:
    """Steps of a binomial tree from member 0: at distances 2^k, ..., 2, 1 each holder i sends to i + distance.

    Args:
        amount: bytes of a message ``[a, 1]``; with ``parts``, bytes of one member's part.
        parts: a message holds the parts of the receiver and of those below it, not everything.
    """
    n, steps = block.size, []
    for distance in reversed(doublings(block)):
        sender = np.arange(0, n - distance, 2 * distance)
        target, count = np.arange(n), np.ones(n)
        target[sender] = sender + distance
        count[sender] = np.minimum(distance, n - distance - sender)
        steps.append(Step(target, amount * count if parts else amount))
    return steps


def up_the_tree(block: Block, amount: FloatArray, *, parts: bool) -> list[Step]:
    """The same steps backwards: sent data is received, and added to the receiver's own unless it is ``parts``."""
    steps = []
    for down in reversed(down_the_tree(block, amount, parts=parts)):
        sender = np.flatnonzero(down.target != np.arange(block.size))
        target, size = np.arange(block.size), np.broadcast_to(down.bytes, (len(down.bytes), block.size)).copy()
        target[down.target[sender]] = sender
        size[:, down.target[sender]] = size[:, sender]
        steps.append(Step(target, size if parts else amount, adds=not parts))
    return steps


def is_power_of_two(block: Block) -> bool:
    """Whether exchanges in pairs reach all members."""
    return block.size & (block.size - 1) == 0


def halvings(block: Block) -> list[int]:
    """1, 2, 4, ... below the number of members that take part in exchanges."""
    return [1 << k for k in range(block.size.bit_length() - 1)]


def doublings(block: Block) -> list[int]:
    """1, 2, 4, ... below the number of members."""
    return [1 << k for k in range((block.size - 1).bit_length())]


def _participants(block: Block) -> IntArray:
    """Positions of those that exchange ``[2^k]``."""
    extra = block.size - (1 << (block.size.bit_length() - 1))
    return np.concatenate([np.arange(1, 2 * extra, 2), np.arange(2 * extra, block.size)])
