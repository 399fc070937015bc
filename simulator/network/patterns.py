"""Senders and receivers in a stage of a collective, as far as links depend on them.

The question a level of links asks (`simulator.network.levels`) is always the same: of what each member sends and
receives, how much goes to members that do not share some label (a node, a leaf switch) with it? A pattern answers it
for all members at once, without listing pairs, so that 16,384 ranks cost as little as 8. Only on a torus it matters
where the rest goes: `Pattern.messages` says so between domains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from simulator.network.blocks import Block, Grouping, slot_sums
from simulator.network.destinations import (
    Direct,
    Messages,
    Spread,
    around_domains,
    first_members,
    tree_edges,
    tree_messages,
)
from simulator.network.traffic import Traffic, both_ways, left
from simulator.operators import FloatArray
from simulator.program import IntArray


class Pattern(Protocol):
    """Traffic of a stage.

    Attributes:
        on_rails: whether traffic to another node leaves and arrives on the same NIC number.
    """

    @property
    def on_rails(self) -> bool:
        """See the class."""
        ...

    def crossing(self, block: Block, label: IntArray) -> Traffic:
        """Bytes that each member exchanges with members of another ``label [world_size]``."""
        ...

    def messages(self, block: Block) -> Messages:
        """Bytes from each domain to each other."""
        ...

    def mesh_share(self, share: FloatArray, members: IntArray) -> float:
        """Part of the NVLink ports it can use where each pair of GPUs has links of its own, 0 to 1.

        Args:
            share: part of a member's port that leads to each other member ``[k, k]``.
            members: their positions in the instance ``[k]``, ascending.
        """
        ...


def ring_share(share: FloatArray) -> float:
    """Rings use the links of a member to all the others."""
    return min(1.0, float(share.sum(axis=1).min()))


def pairs_share(share: FloatArray) -> float:
    """Usable part of the ports where all pairs carry the same: the weakest pair limits all."""
    others = len(share) - 1
    return float(share[~np.eye(len(share), dtype=bool)].min()) * others


@dataclass(frozen=True, slots=True, eq=False)
class AllPairs:
    """Every member sends to every other.

    Attributes:
        bytes: bytes that each member sends, own part included ``[a, 1]``.
        send_bytes: the same where members differ ``[I, n]``.
        receive_weights: share of a sender's bytes that each member receives ``[I, n]``; None: even.
        peer_bytes: bytes from each member to each other ``[I, n, n]`` if shares differ by sender.
        on_rails: messages change the rail by NVLink before they leave the node (PXN).
    """

    bytes: FloatArray
    send_bytes: FloatArray | None = None
    receive_weights: FloatArray | None = None
    peer_bytes: FloatArray | None = None
    on_rails: bool = False

    def mesh_share(self, share: FloatArray, members: IntArray) -> float:
        """The part of all pairs; with uneven sizes over equal links, of the pair that takes longest."""
        apart = ~np.eye(len(share), dtype=bool)
        if np.ptp(share[apart]) > 0.0:  # links differ: sends over the weakest set the pace of all
            return pairs_share(share)
        if self.peer_bytes is not None:
            sizes = self.peer_bytes[:, members][:, :, members] * apart
        elif self.send_bytes is not None and self.receive_weights is not None:
            sizes = self.send_bytes[:, members, None] * self.receive_weights[:, None, members] * apart
        else:
            return pairs_share(share)
        busiest = np.maximum(sizes.sum(axis=2).max(axis=1), sizes.sum(axis=1).max(axis=1))
        alone = sizes.max(axis=(1, 2)) / share[apart].min()
        return min(1.0, float(np.divide(busiest, alone, out=np.ones_like(busiest), where=alone > 0.0).min()))

    def crossing(self, block: Block, label: IntArray) -> Traffic:
        """Each member outside the label gets its share."""
        grouping = block.grouping(label)
        if self.peer_bytes is not None:
            away = np.where(grouping.slot[:, :, None] == grouping.slot[:, None, :], 0.0, self.peer_bytes)
            return Traffic(away.sum(axis=2), away.sum(axis=1))
        if self.send_bytes is None or self.receive_weights is None:
            return both_ways(self.bytes * ((block.size - grouping.count) / block.size))
        return _uneven(self.send_bytes, self.receive_weights, grouping)

    def messages(self, block: Block) -> Messages:
        """A message to every member with its share."""
        if self.peer_bytes is not None:
            sender, receiver = (place.reshape(1, -1) for place in np.indices((block.size, block.size)))
            return (Direct(sender, receiver, self.peer_bytes.reshape(len(self.peer_bytes), -1)),)
        if self.send_bytes is None or self.receive_weights is None:
            return (Spread(self.bytes, np.full((1, 1), 1.0 / block.size)),)
        return (Spread(self.send_bytes, self.receive_weights),)


def _uneven(sent: FloatArray, share: FloatArray, grouping: Grouping) -> Traffic:
    """A member's bytes times the shares of the others; and its share of the others' bytes."""
    out = sent * left(np.ones_like(share), grouping.shared(share))
    others: FloatArray = left(sent.sum(axis=1, keepdims=True) + np.zeros_like(sent), grouping.shared(sent))
    return Traffic(out, share * others)


@dataclass(frozen=True, slots=True, eq=False)
class Rings:
    """Data goes round all members, domain after domain, on as many rings as a domain has members.

    Each ring enters and leaves a domain, or any part of the machine, at another of its members, so that over all rings
    each of the k members there carries 1/k of the bytes that cross its border. Chains and trees that are laid out in
    the same order cross borders as rings do.

    Attributes:
        bytes: bytes that pass each member ``[a, 1]``.
    """

    bytes: FloatArray
    on_rails: bool = True

    def mesh_share(self, share: FloatArray, members: IntArray) -> float:  # noqa: ARG002 - the protocol's signature
        """The part of rings."""
        return ring_share(share)

    def crossing(self, block: Block, label: IntArray) -> Traffic:
        """1 / k of the bytes in each label of k members; nothing where one holds all."""
        count = block.grouping(label).count
        return both_ways(np.where(count < block.size, self.bytes / count, 0.0))

    def messages(self, block: Block) -> Messages:
        """All bytes from each domain to the next."""
        return around_domains(block, self.bytes)


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Two binary trees over the domains, each with half of the data up and down again, see `tree_edges`.

    Inside a domain the data passes every member on a chain, up and down; each tree enters a domain at another member,
    so that its k members carry 1/k each of what crosses its border.

    Attributes:
        bytes: bytes of the buffer, which go up and down ``[a, 1]``.
        local: whether the data passes the members inside a domain too; else the domain's switch deals with them.
    """

    bytes: FloatArray
    local: bool = True
    on_rails: bool = True

    def mesh_share(self, share: FloatArray, members: IntArray) -> float:  # noqa: ARG002 - the protocol's signature
        """The part of rings."""
        return ring_share(share)

    def crossing(self, block: Block, label: IntArray) -> Traffic:
        """Half of the data each way for each edge that leaves the label; below a domain, as rings cross borders."""
        grouping = block.grouping(label)
        edges = leaving_edges(block, grouping)
        far = self.bytes * (edges / 2.0 / grouping.count)
        inside = grouping.count < block.local
        if not np.any(inside):
            return both_ways(far)
        chain = np.where(block.size > 1, 2.0 * self.bytes / grouping.count, 0.0)
        near = chain if self.local else self.bytes * (domain_edges(block) / 2.0 / block.local)
        return both_ways(np.where(inside, near, far))

    def messages(self, block: Block) -> Messages:
        """Half of the bytes both ways between child and parent, in each tree."""
        return tree_messages(block, self.bytes / 2.0)


def domain_edges(block: Block) -> FloatArray:
    """Edges of both trees at each member's domain ``[I, n]``."""
    degree = np.bincount(tree_edges(block.node_count).ravel(), minlength=block.node_count).astype(np.float64)
    return degree[block.domains.slot]


def leaving_edges(block: Block, grouping: Grouping) -> FloatArray:
    """Edges of both trees with one end in each member's group, made of whole domains ``[I, n]``."""
    edges, place = tree_edges(block.node_count), grouping.slot
    first = first_members(block)
    of_domain = np.take_along_axis(place, first, axis=1)
    child, parent = (of_domain[:, end] for end in edges.T)
    leaves = (child != parent).astype(np.float64)
    ends = slot_sums(leaves, child, grouping.width) + slot_sums(leaves, parent, grouping.width)
    return np.take_along_axis(ends, place, axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class LocalRings(Rings):
    """Rings among the members of each domain."""

    def crossing(self, block: Block, label: IntArray) -> Traffic:
        """1 / k of the bytes in each label of k members; nothing where one holds the domain."""
        count = block.grouping(label).count
        return both_ways(np.where(count < block.local, self.bytes / count, 0.0))

    def messages(self, block: Block) -> Messages:  # noqa: ARG002 - the protocol's signature
        """None between domains."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class RailRings(Rings):
    """A ring over the domains for each local rank; needs as many members in each domain."""

    def crossing(self, block: Block, label: IntArray) -> Traffic:
        """1 / k of the bytes in each label of k domains; nothing where one holds all."""
        count = block.grouping(label).count
        return both_ways(np.where(count < block.size, self.bytes / np.maximum(count / block.local, 1.0), 0.0))

    def messages(self, block: Block) -> Messages:
        """Each domain sends the bytes of all its members to the next."""
        return around_domains(block, self.bytes * block.local_size)


@dataclass(frozen=True, slots=True, eq=False)
class NearAndFar:
    """Amounts to members of the same domain, and to those of other domains along the rail, spread over them evenly.

    Attributes:
        near: within the domain.
        far: bytes to the other domains.
        between: messages to other domains by receiver; the sums over domains are those of ``far``.
    """

    near: Traffic
    far: Traffic
    between: AllPairs | None = None
    on_rails: bool = True

    def mesh_share(self, share: FloatArray, members: IntArray) -> float:  # noqa: ARG002 - the protocol's signature
        """The part of all pairs."""
        return pairs_share(share)

    def crossing(self, block: Block, label: IntArray) -> Traffic:
        """Near and far from labels within a domain; from larger ones the share of the domains outside."""
        count, local = block.grouping(label).count, block.local
        outside = np.where(count <= local, 1.0, (block.size - count) / np.maximum(block.size - local, 1.0))
        inside = np.where(local > 1.0, (local - np.minimum(count, local)) / np.maximum(local - 1.0, 1.0), 0.0)
        return Traffic(
            self.near.out_bytes * inside + self.far.out_bytes * outside,
            self.near.in_bytes * inside + self.far.in_bytes * outside,
        )

    def messages(self, block: Block) -> Messages:
        """Like messages between members: a domain sends as much as it receives."""
        return () if self.between is None else self.between.messages(block)


@dataclass(frozen=True, slots=True, eq=False)
class Sends:
    """Single messages between members, all at the same time.

    Attributes:
        sender: position in the instance of each message's sender ``[k]``.
        receiver: position of its receiver ``[k]``; a member that sends to itself sends nothing.
        bytes: size of each message ``[a, k]``, or of all alike ``[a, 1]``.
    """

    sender: IntArray
    receiver: IntArray
    bytes: FloatArray
    on_rails: bool = False

    def crossing(self, block: Block, label: IntArray) -> Traffic:
        """The bytes of the messages between members with different labels."""
        slot = block.grouping(label).slot
        moved = np.where(slot[:, self.sender] != slot[:, self.receiver], self.bytes, 0.0)
        ends = (np.broadcast_to(end, moved.shape) for end in (self.sender, self.receiver))
        return Traffic(*(slot_sums(moved, end, block.size) for end in ends))

    def messages(self, block: Block) -> Messages:  # noqa: ARG002 - the protocol's signature
        """Each sender's bytes go to its receiver."""
        return (Direct(self.sender[None], self.receiver[None], self.bytes),)

    def mesh_share(self, share: FloatArray, members: IntArray) -> float:
        """The pair that takes longest over its own links sets the pace of the busiest port."""
        here = np.isin(self.sender, members) & np.isin(self.receiver, members) & (self.sender != self.receiver)
        size = np.broadcast_to(self.bytes, (len(self.bytes), len(self.sender))).max(axis=0)[here]
        pair: FloatArray = np.zeros_like(share)
        np.add.at(pair, tuple(np.searchsorted(members, end[here]) for end in (self.sender, self.receiver)), size)
        busiest = max(pair.sum(axis=0).max(), pair.sum(axis=1).max())
        if busiest == 0.0:
            return 1.0
        return min(1.0, float(busiest / (pair[pair > 0.0] / share[pair > 0.0]).max()))


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """Several patterns at the same time."""

    parts: tuple[Pattern, ...]

    @property
    def on_rails(self) -> bool:
        """Whether all parts are on rails."""
        return all(part.on_rails for part in self.parts)

    def mesh_share(self, share: FloatArray, members: IntArray) -> float:
        """The least of the parts."""
        return min(part.mesh_share(share, members) for part in self.parts)

    def crossing(self, block: Block, label: IntArray) -> Traffic:
        """The sum of the parts."""
        total = self.parts[0].crossing(block, label)
        for part in self.parts[1:]:
            total = total + part.crossing(block, label)
        return total

    def messages(self, block: Block) -> Messages:
        """Messages of all parts."""
        return tuple(message for part in self.parts for message in part.messages(block))


@dataclass(frozen=True, slots=True)
class NoTraffic:
    """A stage that moves nothing: a barrier's."""

    on_rails: bool = True

    def mesh_share(self, share: FloatArray, members: IntArray) -> float:  # noqa: ARG002 - the protocol's signature
        """The part of rings."""
        return ring_share(share)

    def crossing(self, block: Block, label: IntArray) -> Traffic:  # noqa: ARG002 - the protocol's signature
        """Nothing."""
        return both_ways(np.zeros((1, 1)))

    def messages(self, block: Block) -> Messages:  # noqa: ARG002 - the protocol's signature
        """None."""
        return ()


NO_TRAFFIC = NoTraffic()
