"""Torus: every node has a link to the next and to the previous node of each dimension.

Node ``x + k_x (y + k_y z)`` sits at (x, y, z). Messages go by minimal routes, dimension after dimension: first along x
to the column of the target, then along y, then along z; of two ways equally long, half of the bytes take each. So along
one dimension a message's line is given by the target's coordinates before it and the source's after it.

Links are numbered dimension after dimension, by the node they leave: ``d N + node``, once for the links to the next
node (plus) and once for those to the previous one (minus). A dimension of 2 has two links between its nodes. All links
are one resource class of the fastest dimension's rate; bytes on slower dimensions count for as much more.

Closed forms for tori of k^n nodes that send S bytes each: all_to_all puts k/8 S on every link (k even), a ring in node
order what it carries on the plus links of the first dimension (`tests/theory/test_torus.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from simulator.network.blocks import Block
from simulator.network.destinations import Direct, Messages, Spread
from simulator.operators import FloatArray
from simulator.program import IntArray

ROUNDING = 1e-9
"""Share of the busiest link below which the remainder after adding and subtracting counts as zero."""


@dataclass(frozen=True, eq=False)
class Torus:
    """A torus of nodes.

    Attributes:
        dimensions: nodes along each dimension ``[D]``.
        node_of: node of each rank ``[world_size]``.
        slowness: factor by which bytes on a dimension count for more, the fastest rate over its own ``[D]``.
    """

    dimensions: tuple[int, ...]
    node_of: IntArray
    slowness: tuple[float, ...]
    _used: dict[Block, tuple[IntArray, IntArray]] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> int:
        """N, nodes of the whole torus."""
        return prod(self.dimensions)

    @property
    def link_count(self) -> int:
        """D N, links in one sense."""
        return len(self.dimensions) * self.nodes

    def loads(self, messages: Messages, block: Block) -> tuple[FloatArray, FloatArray]:
        """Bytes over the plus and over the minus links of `used` of each instance, each ``[I, w]``."""
        plus, minus = self.used(block)
        found = [self._instance_loads(messages, block, i) for i in range(block.instance_count)]
        return (
            np.stack([loads[0][links] for loads, links in zip(found, plus, strict=True)]),
            np.stack([loads[1][links] for loads, links in zip(found, minus, strict=True)]),
        )

    def used(self, block: Block) -> tuple[IntArray, IntArray]:
        """The plus and the minus links between members of each instance, each ``[I, w]``, remembered.

        Rows of instances with fewer links are filled up with others.
        """
        if block not in self._used:
            even = (Spread(np.ones((1, 1)), np.ones((1, 1))),)
            found = [self._instance_loads(even, block, i) > 0.0 for i in range(block.instance_count)]
            self._used[block] = (widest([some[0] for some in found]), widest([some[1] for some in found]))
        return self._used[block]

    def delay_s(self, messages: Messages, block: Block, rounds: int) -> float:  # noqa: ARG002 - one signature
        """Extra delay: 0; `farthest` counts the library's hops for each link."""
        return 0.0

    def farthest(self, messages: Messages, block: Block) -> int:
        """Links on the longest route of some messages."""
        if any(isinstance(part, Spread) for part in messages):
            return max(self._span(np.unique(nodes)) for nodes in self.node_of[block.ranks])
        return max((self._longest(part, block) for part in messages if isinstance(part, Direct)), default=0)

    def _span(self, nodes: IntArray) -> int:
        """An upper bound of the links between any two of ``nodes``: along each dimension half of it, or to the end."""
        place = self._coordinates(nodes)
        reach = zip(place, self.dimensions, strict=True)
        return sum(min(int(np.ptp(along)), length // 2) for along, length in reach)

    def _longest(self, part: Direct, block: Block) -> int:
        nodes = self.node_of[block.ranks]
        ends = [
            self._coordinates(np.take_along_axis(nodes, np.broadcast_to(end, (len(nodes), end.shape[1])), axis=1))
            for end in (part.source, part.target)
        ]
        hops = np.zeros((1, 1), dtype=np.int64)
        for start, stop, length in zip(*ends, self.dimensions, strict=True):
            ahead = (stop - start) % length
            hops = hops + np.minimum(ahead, length - ahead)
        return int(hops.max(initial=0))

    def _coordinates(self, nodes: IntArray) -> tuple[IntArray, ...]:
        return np.unravel_index(nodes, self.dimensions, order="F")

    def _instance_loads(self, messages: Messages, block: Block, instance: int) -> FloatArray:
        """Bytes over every plus and minus link ``[2, D N]``."""
        nodes = self.node_of[block.ranks[instance]]
        loads = np.zeros((2, len(self.dimensions), self.nodes))
        for part in messages:
            for dimension in range(len(self.dimensions)):
                if isinstance(part, Spread):
                    sent, share = (self._by_node(_row(end, instance), nodes) for end in (part.sent, part.share))
                    loads[:, dimension] += self._spread(dimension, sent, share)
                else:
                    source, target = (nodes[end[instance if len(end) > 1 else 0]] for end in (part.source, part.target))
                    amount = np.broadcast_to(_row(part.bytes, instance), source.shape)
                    loads[:, dimension] += self._direct(dimension, source, target, amount)
        weighted: FloatArray = loads * np.array(self.slowness)[:, None]
        return weighted.reshape(2, -1)

    def _by_node(self, values: FloatArray, nodes: IntArray) -> FloatArray:
        """Sums of the members' values, by their ``nodes`` ``[N]``."""
        sums = np.bincount(nodes, weights=np.broadcast_to(values, nodes.shape), minlength=self.nodes)
        return sums.astype(np.float64, copy=False)

    def _spread(self, dimension: int, sent: FloatArray, share: FloatArray) -> FloatArray:
        """Loads of one dimension ``[2, N]`` when node s sends ``sent[s] x share[t]`` to each t."""
        shape = self._lines(dimension)
        leaving = sent.reshape(shape).sum(axis=2)  # at the target's place in the dimensions before this one
        arriving = share.reshape(shape).sum(axis=0)  # at the source's place in those after it
        back = _all_pairs_on_ring(leaving[:, ::-1], arriving[::-1])
        return np.stack([_all_pairs_on_ring(leaving, arriving).ravel(), back[:, ::-1].ravel()])

    def _direct(self, dimension: int, source: IntArray, target: IntArray, amount: FloatArray) -> FloatArray:
        """Loads of one dimension ``[2, N]`` of messages between nodes ``[f]``."""
        high, length, low = self._lines(dimension)
        line = source // (low * length) * low + target % low
        start, stop = source // low % length, target // low % length
        plus = _messages_on_ring(line, start, stop, amount, length, high * low)
        minus = _messages_on_ring(line, length - 1 - start, length - 1 - stop, amount, length, high * low)[:, ::-1]
        by_node = np.stack([plus, minus]).reshape(2, high, low, length).transpose(0, 1, 3, 2)
        return by_node.reshape(2, -1)

    def _lines(self, dimension: int) -> tuple[int, int, int]:
        """Nodes as (those after, along, those before a dimension): a node's number in C order."""
        length, low = self.dimensions[dimension], prod(self.dimensions[:dimension])
        return self.nodes // (length * low), length, low


def _way(ahead: IntArray, length: int) -> FloatArray:
    """Share of the bytes to the node ``ahead`` places further that goes forwards: the shorter way, or both alike."""
    share: FloatArray = np.where(2 * ahead < length, 1.0, np.where(2 * ahead == length, 0.5, 0.0))
    return share


def _all_pairs_on_ring(leaving: FloatArray, arriving: FloatArray) -> FloatArray:
    """Bytes over the forward links of lines.

    Args:
        leaving: bytes that the nodes of a line send ``[H, k]``.
        arriving: share of it that goes to each node of a line ``[k, L]``.

    Returns:
        Bytes over the link that leaves each node ``[H, k, L]``: of what a node h places back sends, all that goes
        further than h.
    """
    length = leaving.shape[1]
    ways = _way(np.arange(length // 2 + 1), length)
    loads = np.zeros((leaving.shape[0], length, arriving.shape[1]))
    further = np.zeros_like(arriving)
    for back in range(length // 2 - 1, -1, -1):
        further = further + ways[back + 1] * np.roll(arriving, -back - 1, axis=0)
        loads += np.roll(leaving, back, axis=1)[:, :, None] * np.roll(further, back, axis=0)[None]
    return loads


def _messages_on_ring(
    line: IntArray, start: IntArray, stop: IntArray, amount: FloatArray, length: int, lines: int
) -> FloatArray:
    """Bytes over the forward links of lines ``[lines, k]`` of messages from ``start`` to ``stop`` on their ``line``."""
    ahead = (stop - start) % length
    forward = amount * _way(ahead, length)
    first = line * 2 * length + start
    places = lines * 2 * length
    begun = np.bincount(first, weights=forward, minlength=places)
    ended = np.bincount(first + ahead, weights=forward, minlength=places)
    unrolled = np.cumsum((begun - ended).reshape(lines, 2 * length), axis=1)
    loads = unrolled[:, :length] + unrolled[:, length:]
    return np.where(loads > ROUNDING * loads.max(initial=0.0), loads, 0.0)


def _row(values: FloatArray, instance: int) -> FloatArray:
    """The row of an instance in an array that may have one row for all."""
    row: FloatArray = values[instance if len(values) > 1 else 0]
    return row


def widest(used: list[NDArray[np.bool_]]) -> IntArray:
    """Numbers of the links used by each instance ``[I, w]``: all used ones, and others up to the same number."""
    width = max(int(np.count_nonzero(row)) for row in used)
    return np.stack([np.sort(np.argsort(~row, kind="stable")[:width]) for row in used])
