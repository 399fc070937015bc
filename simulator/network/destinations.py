"""Messages between nodes, for fabrics where it matters which way they take.

A hierarchy of links asks a pattern how much leaves each part of it (`Pattern.crossing`). A torus has to know where to:
a pattern lists its messages, either one by one or, where all members send to all, as the bytes that each sends and the
share that each receives, which is n numbers for n^2 messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from simulator.network.blocks import Block, Grouping
from simulator.operators import FloatArray
from simulator.program import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Direct:
    """Messages one by one; members are given by their position in the instance.

    Attributes:
        source: ``[I, f]`` or ``[1, f]``.
        target: the same shape.
        bytes: an array that broadcasts to ``[I, f]``.
    """

    source: IntArray
    target: IntArray
    bytes: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Everybody sends to everybody: member i to j ``sent_i x share_j``; arrays that broadcast to ``[I, n]``."""

    sent: FloatArray
    share: FloatArray


Messages: TypeAlias = tuple[Direct | Spread, ...]


def around_domains(block: Block, amount: FloatArray) -> Messages:
    """``amount [a, 1]`` from each domain to the next in the order of their numbers, and from the last to the first."""
    if block.node_count == 1:
        return ()
    first = first_members(block)
    return (Direct(first, np.roll(first, -1, axis=1), amount),)


def first_members(block: Block) -> IntArray:
    """Position of the first member of each domain ``[I, m]``."""
    return first_of(block.domains)


def first_of(grouping: Grouping) -> IntArray:
    """Position of the first member of each value ``[I, w]``, in the order of the values."""
    slot = grouping.slot
    order = np.argsort(slot, axis=1, kind="stable")
    ordered = np.take_along_axis(slot, order, axis=1)
    new = np.ones_like(ordered, dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first: IntArray = order[new].reshape(len(slot), -1)
    return first


def tree_messages(block: Block, amount: FloatArray) -> Messages:
    """``amount [a, 1]`` both ways along each edge of two binary trees over the domains, see `tree_edges`."""
    first = first_members(block)
    lower, upper = (first[:, place] for place in tree_edges(block.node_count).T)
    return (Direct(lower, upper, amount), Direct(upper, lower, amount)) if block.node_count > 1 else ()


def tree_edges(count: int) -> IntArray:
    """Child and parent of each edge of two binary trees over ``count`` domains ``[2 (count - 1), 2]``.

    In the first tree the parent of domain i is i with its lowest set bit moved up by one place (or cleared, where that
    is none of the m); the second is the first with domains counted from the other end, or one further where m is odd,
    so that who is a leaf in one has children in the other: NCCL's double binary tree (``trees.cc``, recalled).
    """
    child = np.arange(1, count)
    lowest = child & -child
    moved = (child ^ lowest) | (lowest << 1)
    parent = np.where(moved < count, moved, child ^ lowest)
    domain = np.arange(count)
    second = np.roll(domain, -1) if count % 2 else domain[::-1]
    edges = [np.stack([place[child], place[parent]], axis=1) for place in (domain, second)]
    return np.concatenate(edges).astype(np.int64)


def tree_passes(count: int) -> float:
    """Times that the data passes the busiest domain of two binary trees with half of it each, each way.

    1 over two domains, 1.5 over three, 2 over four and more: where both trees have an edge or three at a domain, a
    half goes over each. 0 over one.
    """
    return float(np.bincount(tree_edges(count).ravel(), minlength=1).max()) / 2.0
