"""CollNet: the network's switches add (SHARP). Parts are reduced inside the nodes first, one for each GPU and its NIC.

With g members on each of m nodes and S bytes:

    time = 2 nvlink_hops + 2 (g - 1) x member + network_hop + max(2 (g - 1) / g S / nvlink, S / g / nic) / 0.85

A NIC sends its part of the buffer once and receives the sum once, however many nodes there are, where a ring's carries
2 (m - 1) / m as much; an up-link of a leaf switch carries it once for all nodes below. Only where the fabric adds
(``in_network_reduction``); the Simple protocol only. Latency, ``member_s`` and the 0.85 (from Hopper on; taken for
all): NCCL 2.30 ``src/graph/tuning.cc``, CollNetDirect.
"""

from __future__ import annotations

from hardware_specs.types import Cluster
from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.patterns import LocalRings, RailRings, Together

EFFICIENCY = 0.85
"""Fraction of the links' bandwidth; NCCL 2.30 ``src/graph/tuning.cc``, CollNetDirect on Hopper."""


def stages(call: Call) -> tuple[Stage, ...]:
    """One pipelined phase; see the module's formula."""
    g = call.block.local_size
    latency = Latency(table="collnet", near_hops=2 if g > 1 else 0, network_hops=1, members=2 * (g - 1))
    pattern = Together((LocalRings(call.bytes * (2 * (g - 1) / g)), RailRings(call.bytes / g)))
    return (Stage(latency, pattern, EFFICIENCY),)


def applies(block: Block) -> bool:
    """Whether the members fill two or more nodes evenly."""
    return block.uniform and block.node_count > 1


def network_adds(cluster: Cluster) -> bool:
    """Whether the switches between nodes add."""
    return cluster.fabric.in_network_reduction


COLLNET = register(
    CollectiveAlgorithm(
        name="collnet",
        ops=("all_reduce",),
        description="the network's switches add (SHARP, NCCL's CollNet); fabrics with in-network reduction",
        stages=stages,
        shares="nvls",
        applies=applies,
        network_protocols=("simple",),
        runs_on=network_adds,
    )
)
