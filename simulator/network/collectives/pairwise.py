"""Pairwise all_to_all: every member sends to every other directly, as grouped sends and receives do in NCCL.

With n members, g on each node, S bytes sent by each (own part, S / n, stays where it is):

    time = base + (g - 1) x nvlink_hop + (network_hop + (n - g) x post  when n > g)
           + max((g - 1) / n x S / nvlink, (n - g) / n x S / nic)

Sends to local and remote members are in flight together: one phase. A member's messages start one after the other,
each at the cost of an NVLink hop or a post of the network proxy; that is what n - 1 small messages cost. NCCL has no
cost model for all_to_all; its network sends use the Simple protocol, LL buffers are not allocated
(``src/init.cc``, ``ALLOC_P2P_NET_LL_BUFFERS`` = 0).

With uneven sizes, sender i has B_i bytes and member j receives the share w_j of each: i sends B_i times the w of its
node's other members over NVLink and B_i times the w of the other nodes over its NIC; the busiest port sets the time.
"""

from __future__ import annotations

import numpy as np

from simulator.network.collectives.algorithm import (
    Call,
    CollectiveAlgorithm,
    Latency,
    Stage,
    Traffic,
    both_ways,
    register,
)
from simulator.network.membership import Block
from simulator.operators import FloatArray


def stages(call: Call) -> tuple[Stage, ...]:
    """One phase; see the module's formula."""
    nvlink, nic = exchanged(call)
    return (Stage(latency(call.block), nvlink=nvlink, nic=nic, off_rail=1.0 - 1.0 / call.block.local_size),)


def latency(block: Block) -> Latency:
    """Start-up, then one message after the other to each of the other members."""
    remote = block.size - int(block.local.min())
    return Latency(nvlink_hops=block.local_size - 1, network_hops=1 if remote else 0, posts=remote)


def exchanged(call: Call) -> tuple[Traffic, Traffic]:
    """Bytes between members of one node and between members on different nodes."""
    n, local = call.block.size, call.block.local
    if call.send_bytes is None or call.weights is None:
        return both_ways(call.bytes * ((local - 1) / n)), both_ways(call.bytes * ((n - local) / n))
    sent, share = call.send_bytes, call.weights
    node_share, node_sent = call.block.node_sums(share), call.block.node_sums(sent)
    total_sent: FloatArray = sent.sum(axis=1, keepdims=True)
    near = Traffic(sent * _left(node_share, share), share * _left(node_sent, sent))
    far = Traffic(sent * _left(np.ones_like(share), node_share), share * _left(total_sent, node_sent))
    return near, far


def _left(whole: FloatArray, part: FloatArray) -> FloatArray:
    """``whole - part``, where rounding must not leave a trace of nothing."""
    rest = whole - part
    return np.where(rest > 1e-9 * whole, rest, 0.0)


PAIRWISE = register(
    CollectiveAlgorithm(
        name="pairwise",
        ops=("all_to_all",),
        description="every member sends to every other directly (NCCL's grouped sends); n - 1 messages each",
        stages=stages,
        network_protocols=("simple",),
    )
)
