"""Tree: a chain inside each node and a double binary tree over the m nodes, up and down again.

With at most g members on a node and S bytes:

    time = base + 2 (g - 1) x nvlink_hop + 2 floor(log2 m) x network_hop
           + max(2 S (g - 1) / g / nvlink, 2 S / g / nic) / 0.92

(on one node 2 S / nvlink.) Every byte goes up and down again, so 2 S pass each member; a node sends and receives 2 S
over its g NICs, each tree at another of its members. Up and down are pipelined: one phase. Its latency grows with the
logarithm of the nodes, which is why NCCL chooses it for small messages on many nodes. Latency formula and the 0.92:
NCCL 2.30 ``src/graph/tuning.cc``, Tree (all_reduce ``min(x .92, channels x cap)``).
"""

from __future__ import annotations

import math

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.patterns import Rings

EFFICIENCY = 0.92
"""Of the ring's bandwidth; NCCL 2.30 ``src/graph/tuning.cc``, ``ncclTopoTuneModel``."""


def stages(call: Call) -> tuple[Stage, ...]:
    """One pipelined phase; see the module's formula."""
    g, m = call.block.local_size, call.block.node_count
    latency = Latency(table="tree", near_hops=2 * (g - 1), network_hops=2 * math.floor(math.log2(m)))
    return (Stage(latency, Rings(2.0 * call.bytes), efficiency=EFFICIENCY),)


TREE = register(
    CollectiveAlgorithm(
        name="tree",
        ops=("all_reduce", "barrier"),
        description="chains inside nodes, double binary tree over nodes; latency grows with log2 of the nodes",
        stages=stages,
    )
)
