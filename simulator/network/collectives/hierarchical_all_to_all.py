"""Hierarchical all_to_all: NVLink to the local member on the destination's rail, then the NIC along the rail.

With m nodes of g members, n = m g, S bytes sent by each:

    time = base + (g - 1) x nvlink_hop + (g - 1) / g x S / nvlink
           + base + network_hop + max((m - 1) x post, (m - 1) / m x S / nic)

The two phases are sequential: the second needs what the first gathered, and HugeCTR runs them one after the other
(``HugeCTR/embedding/hier_model_parallel_embedding.cpp``). It sends g + m - 2 messages instead of n - 1. No library
chooses it by itself; a scenario names it. Needs two or more nodes with the same number of members each.

With uneven sizes the first phase sends to local member j the share of everything that goes to j's rail.
"""

from __future__ import annotations

import numpy as np

from simulator.network.blocks import Block, slot_sums
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.patterns import AllPairs, NearAndFar
from simulator.network.traffic import Traffic, both_ways, left
from simulator.operators import FloatArray
from simulator.program import IntArray

NONE = both_ways(np.zeros((1, 1)))


def stages(call: Call) -> tuple[Stage, ...]:
    """Two phases in sequence; see the module's formula."""
    g, m = call.block.local_size, call.block.node_count
    near, far = by_rail(call, rails_of(call.block))
    between = AllPairs(call.bytes, call.send_bytes, call.receive_weights, call.peer_bytes)
    return (
        Stage(Latency(near_hops=g - 1), NearAndFar(near, NONE)),
        Stage(Latency(network_hops=1, messages=m - 1), NearAndFar(NONE, far, between)),
    )


def by_rail(call: Call, rail: IntArray) -> tuple[Traffic, Traffic]:
    """Bytes to the members of the node, by their rails, and along the rails; sums over a node or a rail.

    Args:
        call: an all_to_all over evenly filled nodes.
        rail: position of each member among those of its node ``[I, n]``: equal positions form a rail.
    """
    if call.peer_bytes is not None:
        return _by_rail_of_peers(call.block, call.peer_bytes, rail)
    block, sent, share = call.block, call.send_bytes, call.receive_weights
    if sent is None or share is None:
        g, m = block.local_size, block.node_count
        return both_ways(call.bytes * ((g - 1) / g)), both_ways(call.bytes * ((m - 1) / m))
    rail_share = np.take_along_axis(slot_sums(share, rail, block.local_size), rail, axis=1)
    node_sent = block.domains.shared(sent)
    near = Traffic(sent * (1.0 - rail_share), rail_share * (node_sent - sent))
    out = node_sent * (rail_share - share)
    received = share * (sent.sum(axis=1, keepdims=True) - node_sent)
    return near, Traffic(out, received)


def _by_rail_of_peers(block: Block, peers: FloatArray, rail: IntArray) -> tuple[Traffic, Traffic]:
    """`by_rail` for bytes from each member to each other ``[I, n, n]``."""
    slot = block.domains.slot
    beside = slot[:, :, None] == slot[:, None, :]
    to_rail = peers @ (rail[:, :, None] == rail[:, None, :])  # [i, j]: from i to all members on the rail of j
    own = np.diagonal(to_rail, axis1=1, axis2=2)
    through = np.where(beside, to_rail, 0.0).sum(axis=1)
    near = Traffic(left(peers.sum(axis=2), own), left(through, own))
    away = np.where(beside, 0.0, peers)
    return near, Traffic(left(through, np.where(beside, peers, 0.0).sum(axis=1)), away.sum(axis=1))


def rails_of(block: Block) -> IntArray:
    """`Block.rail`, or where nodes hold different GPUs the position among the node's members by rank ``[I, n]``."""
    if block.rail is not None:
        return block.rail
    order = np.argsort(block.domains.slot, axis=1, kind="stable")
    slots = np.empty_like(order)
    position = np.arange(block.size) % block.local_size
    np.put_along_axis(slots, order, np.broadcast_to(position, order.shape), axis=1)
    return slots


def applies(block: Block) -> bool:
    """Whether the members fill two or more nodes evenly."""
    return block.uniform and block.node_count > 1


HIERARCHICAL_ALL_TO_ALL = register(
    CollectiveAlgorithm(
        name="hierarchical",
        ops=("all_to_all",),
        description="NVLink to the destination's rail, then along the rail, one after the other (HugeCTR)",
        stages=stages,
        shares="direct",
        applies=applies,
        network_protocols=("simple",),
    )
)
