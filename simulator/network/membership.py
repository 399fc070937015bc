"""Which ranks form the instances of a communicator, as rectangular blocks of like instances.

Costs are computed for a whole block at once: all its instances have the same number of members on the same number of
nodes. A communicator of one group per node is one block, whatever the number of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.network.topology import Topology
from simulator.operators import FloatArray
from simulator.program import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Instances of one shape: I instances of n members on m nodes, over w NIC ports each.

    Attributes:
        number: instance numbers ``[I]`` of the communicator.
        ranks: members in rank order ``[I, n]``.
        node_slot: which of the instance's m nodes each member is on ``[I, n]``.
        nodes: node numbers ``[I, m]``.
        local: members on the member's node, itself included ``[1, 1]`` when the same for all, else ``[1, n]``.
        port_slot: which of the instance's w NIC ports each member uses ``[I, n]``.
        ports: NIC port numbers ``[I, w]``.
        sharers: members per NIC port, 0 when it differs between ports.
    """

    number: IntArray
    ranks: IntArray
    node_slot: IntArray
    nodes: IntArray
    local: FloatArray
    port_slot: IntArray
    ports: IntArray
    sharers: int

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
        """m, nodes each instance is on."""
        return int(self.nodes.shape[1])

    @property
    def uniform(self) -> bool:
        """Whether every node of an instance holds the same number of its members."""
        return self.local.shape == (1, 1)

    @property
    def local_size(self) -> int:
        """Largest number of members on one node."""
        return int(self.local.max())

    def node_sums(self, values: FloatArray) -> FloatArray:
        """Sum of ``values [I, n]`` over the members on each member's node ``[I, n]``."""
        return np.take_along_axis(slot_sums(values, self.node_slot, self.node_count), self.node_slot, axis=1)


def slot_sums(values: FloatArray, slot: IntArray, width: int) -> FloatArray:
    """Add ``values [I, n]`` (or what broadcasts to it) by slot: ``[I, width]``."""
    count = slot.shape[0]
    flat = (slot + np.arange(count, dtype=np.int64)[:, None] * width).ravel()
    weights = np.broadcast_to(values, slot.shape).ravel()
    sums = np.bincount(flat, weights=weights, minlength=count * width)
    return sums.astype(np.float64, copy=False).reshape(count, width)


def blocks_of(instance: IntArray, topology: Topology) -> list[Block]:
    """Cut a communicator into blocks.

    Args:
        instance: instance number of each rank ``[world_size]``, -1 for none (see `TaskGraph.communicators`).
        topology: where the ranks are.

    Returns:
        Blocks that hold each instance once. Instances whose nodes hold unequal numbers of members are a block each.
    """
    ranks = np.flatnonzero(instance >= 0)
    order = ranks[np.argsort(instance[ranks], kind="stable")]
    numbers, sizes = np.unique(instance[order], return_counts=True)
    starts = np.cumsum(sizes) - sizes
    blocks = []
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        members = order[starts[chosen][:, None] + np.arange(size)]
        blocks += _blocks_of_size(numbers[chosen], members, topology)
    return blocks


def _blocks_of_size(numbers: IntArray, members: IntArray, topology: Topology) -> list[Block]:
    """Split instances of one size ``members [I, n]`` by their spread over nodes and NIC ports."""
    nodes, node_counts = _spread(topology.node_of[members])
    ports, port_counts = _spread(topology.nic_port_of[members])
    even = (node_counts.min(axis=1) == node_counts.max(axis=1)) & (port_counts.min(axis=1) == port_counts.max(axis=1))
    shape = np.where(even, nodes * (members.shape[1] + 1) + ports, -1 - np.arange(len(members)))
    return [_block(numbers[shape == key], members[shape == key], topology) for key in np.unique(shape)]


def _spread(place: IntArray) -> tuple[IntArray, IntArray]:
    """Distinct places of each row ``[I]``, and how many of the row share a place, in order of place ``[I, n]``."""
    ordered = np.sort(place, axis=1)
    new = np.ones_like(ordered, dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    run = np.cumsum(new.ravel()) - 1
    return new.sum(axis=1), np.bincount(run)[run].reshape(place.shape)


def _slots(place: IntArray) -> tuple[IntArray, IntArray]:
    """Distinct places ``[I, w]`` of rows that have w each, and the slot of each element ``[I, n]``."""
    order = np.argsort(place, axis=1, kind="stable")
    ordered = np.take_along_axis(place, order, axis=1)
    new = np.zeros_like(ordered, dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    slot = np.empty_like(place)
    np.put_along_axis(slot, order, np.cumsum(new, axis=1), axis=1)
    new[:, 0] = True
    return ordered[new].reshape(len(place), -1), slot


def _block(numbers: IntArray, members: IntArray, topology: Topology) -> Block:
    node, port = topology.node_of[members], topology.nic_port_of[members]
    nodes, node_slot = _slots(node)
    ports, port_slot = _slots(port)
    _, port_counts = _spread(port)
    width = members.shape[1] // nodes.shape[1]
    # Unequal nodes only come as blocks of one instance; counts follow members through their slots.
    local = slot_sums(np.ones((1, 1)), node_slot, nodes.shape[1])
    same = bool(np.all(local == width))
    equal_ports = bool(np.all(port_counts == port_counts[0, 0]))
    return Block(
        number=numbers,
        ranks=members,
        node_slot=node_slot,
        nodes=nodes,
        local=np.full((1, 1), float(width)) if same else np.take_along_axis(local, node_slot, axis=1),
        port_slot=port_slot,
        ports=ports,
        sharers=int(port_counts[0, 0]) if equal_ports else 0,
    )
