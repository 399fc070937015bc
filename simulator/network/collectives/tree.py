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

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Protocol, Stage, register
from simulator.network.patterns import Trees

EFFICIENCY = 0.92
"""Fraction of the ring's bandwidth; NCCL 2.30 ``src/graph/tuning.cc``, ``ncclTopoTuneModel``."""

FIRST_BYTES = 64
CORRECTIONS: dict[Protocol, tuple[float, ...]] = {
    "ll": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    "ll128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
    "simple": (
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5,
        0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9,
    ),
}  # fmt: skip
"""Factors at 64 B x 2^i, i = 0 to 22; none beyond. NCCL 2.30 ``src/graph/tuning.cc``, ``treeCorrectionFactor``."""


def stages(call: Call) -> tuple[Stage, ...]:
    """One pipelined phase; see the module's formula."""
    g, m = call.block.local_size, call.block.node_count
    latency = Latency(table="tree", near_hops=2 * (g - 1), network_hops=2 * math.floor(math.log2(m)))
    return (Stage(latency, Trees(2.0 * call.bytes), EFFICIENCY, by_protocol=corrections(float(call.bytes.max()))),)


def corrections(size_bytes: float) -> dict[Protocol, float]:
    """NCCL's factor on the bandwidth of a tree by size, ``treeCorrectionFactor``: medium ones fill its levels badly."""
    step = int(math.log2(max(size_bytes, FIRST_BYTES) / FIRST_BYTES))
    return {protocol: table[step] if step < len(table) else 1.0 for protocol, table in CORRECTIONS.items()}


TREE = register(
    CollectiveAlgorithm(
        name="tree",
        ops=("all_reduce", "barrier"),
        description="chains inside nodes, double binary tree over nodes; latency grows with log2 of the nodes",
        stages=stages,
    )
)
