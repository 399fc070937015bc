"""One-shot all_reduce: one kernel reads the parts of its peers, the network's switches add, peers read the sums.

With g members on each of m nodes and S bytes:

    time = base + 4 nvlink_hops + 2 network_hops + max(2 (g - 1) / g S / nvlink, S / g / nic)

A barrier, the parts of all peers, a flag and the sums cross NVLink, blocks of the buffer one after the other beside the
network; between nodes SHARP adds, up its tree and down (HugeCTR ``HugeCTR/src/collectives/ib_comm_ar.cu``,
``all_reduce_comm.cu``; software facts). Hops are stores of data and flags, which cost what those of NCCL's LL do. No
library chooses it by itself; a framework or a scenario names it. On one node the network terms are 0.
"""

from __future__ import annotations

from hardware_specs.types import Cluster
from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.patterns import LocalRings, Pattern, RailRings, Together

NEAR_HOPS = 4
"""Barrier, reads of the parts, flag of a finished block, reads of the sums (``all_reduce_cuda`` in the kernel)."""


def stages(call: Call) -> tuple[Stage, ...]:
    """One pipelined phase; see the module's formula."""
    g, m = call.block.local_size, call.block.node_count
    latency = Latency(table="stores", near_hops=NEAR_HOPS if g > 1 else 0, network_hops=2 if m > 1 else 0)
    near = LocalRings(call.bytes * (2 * (g - 1) / g))
    pattern: Pattern = Together((near, RailRings(call.bytes / g))) if m > 1 else near
    return (Stage(latency, pattern),)


def applies(block: Block) -> bool:
    """Whether the members fill their nodes evenly."""
    return block.uniform or block.node_count == 1


def on_infiniband(cluster: Cluster) -> bool:
    """Whether switches may add: SHARP is InfiniBand's. Other fabrics have no one_shot, on one node either."""
    return cluster.fabric.network == "infiniband"


ONE_SHOT = register(
    CollectiveAlgorithm(
        name="one_shot",
        ops=("all_reduce",),
        description="one kernel reads its peers' parts, SHARP adds between nodes (HugeCTR's OneShot)",
        stages=stages,
        shares="direct",
        applies=applies,
        network_protocols=("simple",),
        near_protocols=("simple",),
        runs_on=on_infiniband,
    )
)
