"""PAT, parallel aggregated trees: all_gather and reduce_scatter in about log2 n steps, one member on each node.

With n members on as many nodes and S bytes:

    time = base + floor(log2 n) / 3.5 x network_hop + n x member + (n - 1) / n S / nic / 0.75

Every member's part goes down a binomial tree of its own; all n trees run at once, pipelined: one phase. At distance d
each member sends the parts of as many trees as have a branch there, floor((n - 1 - d) / 2d) + 1, to the member d
further; far branches carry little. A reduce_scatter is the same backwards. The 3.5, the linear term (``member_s``)
and the 0.75: NCCL 2.30 ``src/graph/tuning.cc``, PAT; it runs only with one GPU on each node and the Simple protocol.
"""

from __future__ import annotations

import math

import numpy as np

from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.collectives.steps import doublings, shifted
from simulator.network.patterns import Sends, Together

EFFICIENCY = 0.75
"""Fraction of the ring's bandwidth; NCCL 2.30 ``src/graph/tuning.cc``, ``ncclTopoTuneModel``."""

AGGREGATION = 3.5
"""Divides the latency of the steps; NCCL 2.30 ``src/graph/tuning.cc``, PAT."""


def stages(call: Call) -> tuple[Stage, ...]:
    """One pipelined phase; see the module's formula."""
    n, part = call.block.size, call.bytes / call.block.size
    sign, member = (1 if call.op == "all_gather" else -1), np.arange(n)
    trees = Together(
        tuple(Sends(member, shifted(call.block, sign * d), part * branches(n, d)) for d in doublings(call.block))
    )
    latency = Latency(table="pat", network_hops=math.floor(math.log2(n)) / AGGREGATION, members=n)
    return (Stage(latency, trees, EFFICIENCY, own_bytes=part),)


def branches(members: int, distance: int) -> int:
    """Number of branches of this length in a binomial tree over all members; n - 1 over all lengths."""
    return (members - 1 - distance) // (2 * distance) + 1


def applies(block: Block) -> bool:
    """Whether there is one member on each of several nodes."""
    return block.node_count > 1 and block.local_size == 1


PAT = register(
    CollectiveAlgorithm(
        name="pat",
        ops=("all_gather", "reduce_scatter"),
        description="a tree for each member's part, all at once (NCCL, one GPU on each node)",
        stages=stages,
        applies=applies,
        network_protocols=("simple",),
    )
)
