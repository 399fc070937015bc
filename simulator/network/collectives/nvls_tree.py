"""NVLS tree: the NVSwitch adds inside each node, a double binary tree over the m nodes between them.

With g members on a node and S bytes:

    time = nvls_hop + 2 floor(log2 m) x network_hop + max(S / nvlink / 0.85, e S / g / nic)

with e = 1 on two nodes, 1.5 on three, 2 on four and more, as `tree` counts them. A node's switch gives each of its
members a part of the sum to send up and down the tree: NICs carry what a tree's carry, NVLink ports only the buffer
once each way, and no hop is paid for each GPU of a node. NCCL runs it over several nodes with NVLink SHARP, Simple
only. Latency and the 0.85 (Hopper): NCCL 2.30 ``src/graph/tuning.cc``, NVLSTree.
"""

from __future__ import annotations

import math

from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register, switch_adds
from simulator.network.collectives.nvls import EFFICIENCY
from simulator.network.patterns import LocalRings, Together, Trees


def stages(call: Call) -> tuple[Stage, ...]:
    """One pipelined phase; see the module's formula."""
    m = call.block.node_count
    latency = Latency(table="nvls_tree", near_hops=1, network_hops=2 * math.floor(math.log2(m)))
    pattern = Together((LocalRings(call.bytes), Trees(call.bytes, local=False)))
    return (Stage(latency, pattern, near_efficiency=EFFICIENCY),)


def applies(block: Block) -> bool:
    """Whether the members fill two or more nodes evenly, with more than two on each."""
    return block.uniform and block.node_count > 1 and block.local_size > 2


NVLS_TREE = register(
    CollectiveAlgorithm(
        name="nvls_tree",
        ops=("all_reduce",),
        description="the NVSwitch adds in each node, a double binary tree over the nodes (NCCL)",
        stages=stages,
        shares="nvls",
        applies=applies,
        network_protocols=("simple",),
        runs_on=switch_adds,
    )
)
