"""Grouped all_to_all: every member sends to every other directly, as grouped sends and receives do in NCCL.

With n members, g on each node, S bytes sent by each (own part, S / n, stays where it is):

    time = base + (g - 1) x nvlink_hop + (network_hop  when n > g)
           + max((n - g) x post, (g - 1) / n x S / nvlink, (n - g) / n x S / nic)

Sends to local and remote members are in flight together: one phase. A member's messages start one after the other,
those to other nodes while the ones before are under way: the network proxy's posts set the pace of small messages.
NCCL has no cost model for all_to_all; its network sends use the Simple protocol, LL buffers are not allocated
(``src/init.cc``, ``ALLOC_P2P_NET_LL_BUFFERS`` = 0).

With uneven sizes, sender i has B_i bytes and member j receives the share w_j of each: i sends B_i times the w of its
node's other members over NVLink and B_i times the w of the other nodes over its NIC; the busiest port sets the time.
"""

from __future__ import annotations

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.patterns import AllPairs


def stages(call: Call) -> tuple[Stage, ...]:
    """One phase; see the module's formula."""
    pattern = AllPairs(call.bytes, call.send_bytes, call.receive_weights, call.peer_bytes)
    remote = call.block.size - int(call.block.local.min())
    latency = Latency(near_hops=call.block.local_size - 1, network_hops=1 if remote else 0, messages=remote)
    return (Stage(latency, pattern, own_bytes=call.bytes / call.block.size),)


GROUPED = register(
    CollectiveAlgorithm(
        name="grouped",
        ops=("all_to_all",),
        description="every member sends to every other directly (NCCL's grouped sends); n - 1 messages each",
        stages=stages,
        shares="direct",
        network_protocols=("simple",),
        over_sites=True,
    )
)
