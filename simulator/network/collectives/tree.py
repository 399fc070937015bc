"""Tree: a chain inside each node and a double binary tree over the m nodes, up and down again.

With at most g members on a node and S bytes:

    time = base + 2 (g - 1) x nvlink_hop + 2 floor(log2 m) x network_hop
           + max((2 - 1 / g) S / nvlink, e S / g / nic) / 0.92 + fill

(on one node 2 S / nvlink.) Every byte goes up and down again, so 2 S pass each member on the chain of its node. Each
tree carries half of the data, S / 2 both ways over each of its edges, so a node with k edges in both trees sends and
receives k / 2 S over its g NICs; the fewest are two, the most e = 1 on two nodes, 1.5 on three, 2 on four and more
(`simulator.network.destinations.tree_passes`). Up and down are pipelined: one phase. ``fill`` is the time until the
first chunk has passed all levels (`simulator.network.nccl_chunks`), for which chunks of small messages are small. The
latency grows with the logarithm of the nodes, which is why NCCL chooses it for small messages on many nodes. Latency
formula and the 0.92: NCCL 2.30 ``src/graph/tuning.cc``, Tree (all_reduce ``min(x .92, channels x cap)``).
"""

from __future__ import annotations

import math

from simulator.network.collectives.algorithm import Call, Chunks, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.destinations import tree_passes
from simulator.network.patterns import Trees

EFFICIENCY = 0.92
"""Fraction of the ring's bandwidth; NCCL 2.30 ``src/graph/tuning.cc``, ``ncclTopoTuneModel``."""


def stages(call: Call) -> tuple[Stage, ...]:
    """One pipelined phase; see the module's formula."""
    g, m = call.block.local_size, call.block.node_count
    latency = Latency(table="tree", near_hops=2 * (g - 1), network_hops=2 * math.floor(math.log2(m)))
    chunks = Chunks("tree", float(call.bytes.max()), levels=g - 1 + math.floor(math.log2(m)), passes=tree_passes(m))
    return (Stage(latency, Trees(call.bytes), EFFICIENCY, chunks=chunks),)


TREE = register(
    CollectiveAlgorithm(
        name="tree",
        ops=("all_reduce", "barrier"),
        description="chains inside nodes, double binary tree over nodes; latency grows with log2 of the nodes",
        stages=stages,
        shares="tree",
    )
)
