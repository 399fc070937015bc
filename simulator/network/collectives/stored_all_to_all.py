"""all_to_all by stores: a kernel stores at its peers in the node, then one message goes along the rail to each node.

With m nodes of g members, n = m g, S bytes sent by each:

    time = base + nvlink_hop + (g - 1) / g x S / nvlink
           + network_hop + max((m - 1) x post, (m - 1) / m x S / nic)

The bytes are those of `hierarchical_all_to_all`; latencies are not NCCL's: a kernel stores at all local peers at once,
and a thread of the host writes one message to each node with RDMA (HugeCTR's ``IB_NVLink_Hier``,
``HugeCTR/src/collectives/ib_comm.cu``, ``ib_proxy.cpp``; its ``NVLink_SingleNode`` is the first line). Hops and posts
cost what those of NCCL's LL do. No library chooses it by itself; a framework or a scenario names it.
"""

from __future__ import annotations

from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.collectives.hierarchical_all_to_all import NONE, by_rail, rails_of
from simulator.network.patterns import AllPairs, NearAndFar


def stages(call: Call) -> tuple[Stage, ...]:
    """Two phases in sequence, or the first on one node; see the module's formula."""
    m, pairs = call.block.node_count, AllPairs(call.bytes, call.send_bytes, call.receive_weights, call.peer_bytes)
    start = Latency(table="stores", near_hops=1 if call.block.local_size > 1 else 0)
    if m == 1:
        return (Stage(start, pairs),)
    near, far = by_rail(call, rails_of(call.block))
    along = Latency(table="stores", starts=0, network_hops=1, messages=m - 1)
    return (Stage(start, NearAndFar(near, NONE)), Stage(along, NearAndFar(NONE, far, pairs)))


def applies(block: Block) -> bool:
    """Whether the members fill their nodes evenly."""
    return block.uniform or block.node_count == 1


STORED_ALL_TO_ALL = register(
    CollectiveAlgorithm(
        name="stored",
        ops=("all_to_all",),
        description="stores at local peers, then a message to each node along the rail (HugeCTR's IB_NVLink_Hier)",
        stages=stages,
        shares="direct",
        applies=applies,
        network_protocols=("simple",),
        near_protocols=("simple",),
    )
)
