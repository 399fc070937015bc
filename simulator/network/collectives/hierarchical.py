"""Hierarchical: inside the nodes over NVLink, between the nodes on each rail, pipelined.

An all_reduce is a reduce_scatter in each node, an all_reduce of each shard over the m nodes between equal local ranks
(a ring per rail), and an all_gather in each node; an all_gather or reduce_scatter is half of that. With g members per
node, S bytes and p = 2 passes for all_reduce, 1 otherwise:

    time = base + p (g - 1) x nvlink_hop + p (m - 1) x network_hop
           + max(p (g - 1) / g x S / nvlink, p (m - 1) / m x S / g / nic)

Chunks of a large message are in different steps at once, so NVLink and NICs work at the same time: one phase.
Needs two or more nodes with the same number, two or more, of members each.
"""

from __future__ import annotations

from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.collectives.ring import PASSES
from simulator.network.patterns import LocalRings, RailRings, Together


def stages(call: Call) -> tuple[Stage, ...]:
    """One pipelined phase; see the module's formula."""
    g, m, passes = call.block.local_size, call.block.node_count, PASSES[call.op]
    latency = Latency(near_hops=passes * (g - 1), network_hops=passes * (m - 1))
    local = LocalRings(call.bytes * (passes * (g - 1) / g))
    rails = RailRings(call.bytes * (passes * (m - 1) / (m * g)))
    return (Stage(latency, Together((local, rails))),)


def applies(block: Block) -> bool:
    """Whether the members fill two or more nodes evenly, with two or more on each."""
    return block.uniform and block.node_count > 1 and block.local_size > 1


HIERARCHICAL = register(
    CollectiveAlgorithm(
        name="hierarchical",
        ops=("all_reduce", "all_gather", "reduce_scatter", "barrier"),
        description="NVLink inside the nodes, one ring over the nodes per rail, pipelined",
        stages=stages,
        applies=applies,
    )
)
