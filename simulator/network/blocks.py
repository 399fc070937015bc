"""Like instances of a communicator as one rectangle of ranks, and its members by what they share.

`simulator.network.membership` cuts communicators into these blocks; patterns, messages and a torus compute on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Members of each instance that share something (a node, a link).

    Attributes:
        numbers: the w distinct shared values of each instance, ascending ``[I, w]``.
        slot: position of each member's value among them ``[I, n]``.
        count: members that have the same ``[I, n]``.
    """

    numbers: IntArray
    slot: IntArray
    count: FloatArray

    @property
    def width(self) -> int:
        """w, distinct values in each instance."""
        return int(self.numbers.shape[1])

    def sums(self, values: FloatArray) -> FloatArray:
        """Add ``values [I, n]`` (or what broadcasts to it) of those that share: ``[I, w]``."""
        return slot_sums(values, self.slot, self.width)

    def shared(self, values: FloatArray) -> FloatArray:
        """The same sums, one for each member ``[I, n]``."""
        return np.take_along_axis(self.sums(values), self.slot, axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Instances of one shape: I instances of n members on m domains.

    Attributes:
        number: instance numbers ``[I]`` of the communicator.
        ranks: members in rank order ``[I, n]``.
        domains: members by domain.
        uniform: whether every domain of an instance holds the same number of its members.
        rail: position of each member among those of its domain, by GPU ``[I, n]``: equal positions are the same GPU of
            each node, and form a rail; None where the domains hold different GPUs.
        sites: members by site; None: all ranks of the machine are in one place.
    """

    number: IntArray
    ranks: IntArray
    domains: Grouping
    uniform: bool
    rail: IntArray | None = None
    sites: Grouping | None = None
    _groupings: dict[tuple[int, ...], Grouping] = field(default_factory=dict)

    @property
    def instance_count(self) -> int:
        """I, instances of the block."""
        return int(self.ranks.shape[0])

    @property
    def size(self) -> int:
        """n, members of each instance."""
        return int(self.ranks.shape[1])

    @property
    def node_count(self) -> int:
        """m, domains each instance is on: nodes, or what NVLink joins where that is more."""
        return self.domains.width

    @property
    def site_count(self) -> int:
        """Number of sites of each instance."""
        return 1 if self.sites is None else self.sites.width

    @property
    def local(self) -> FloatArray:
        """Members in the member's domain, itself included ``[I, n]``."""
        return self.domains.count

    @property
    def local_size(self) -> int:
        """Largest number of members in one domain."""
        return int(self.domains.count.max())

    def grouping(self, label: IntArray) -> Grouping:
        """Members by ``label [world_size]`` of the topology, remembered (the array itself is the key)."""
        key = (id(label),)
        if key not in self._groupings:
            self._groupings[key] = grouping_of(label[self.ranks])
        return self._groupings[key]

    def joint(self, one: IntArray, other: IntArray) -> Grouping:
        """Members twice, by ``one [world_size]`` and then by ``other``, whose numbers mean the same ``[I, 2 n]``."""
        key = (id(one), id(other))
        if key not in self._groupings:
            self._groupings[key] = grouping_of(np.hstack([one[self.ranks], other[self.ranks]]))
        return self._groupings[key]


def slot_sums(values: FloatArray, slot: IntArray, width: int) -> FloatArray:
    """Add ``values [I, n]`` (or what broadcasts to it) by slot: ``[I, width]``."""
    count = slot.shape[0]
    flat = (slot + np.arange(count, dtype=np.int64)[:, None] * width).ravel()
    weights = np.broadcast_to(values, slot.shape).ravel()
    sums = np.bincount(flat, weights=weights, minlength=count * width)
    return sums.astype(np.float64, copy=False).reshape(count, width)


def grouping_of(label: IntArray) -> Grouping:
    """Group the members of instances ``label [I, n]``, each row of which has the same number of distinct values."""
    order = np.argsort(label, axis=1, kind="stable")
    ordered = np.take_along_axis(label, order, axis=1)
    new = np.ones_like(ordered, dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    slot = np.empty_like(label)
    np.put_along_axis(slot, order, np.cumsum(new, axis=1) - 1, axis=1)
    numbers = ordered[new].reshape(len(label), -1)
    sums = slot_sums(np.ones((1, 1)), slot, numbers.shape[1])
    return Grouping(numbers, slot, np.take_along_axis(sums, slot, axis=1))
