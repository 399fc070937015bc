"""Ring: data goes round all members, node by node, on as many rings as a node has members.

With n members on m nodes, g on each, S bytes, p = 2 passes for all_reduce and barrier, 1 otherwise:

    time = base + max(transfer + hops / (p (n - 1)), hops + path)
    hops = (p (n - 1) - k) x max(nvlink_hop, post) + k x network_hop,          k = p (m - 1)
    transfer = max(R (g - 1) / g / nvlink, R / g / nic),                       R = p (n - 1) / n x S

(on one node the hop is nvlink_hop, k = 0 and each NVLink port carries R). Each ring leaves a node through another
member's NIC, so a NIC carries R / g and an NVLink port what is left of R. broadcast and reduce pass S once: R = S.
All hops of the pipeline are filled, so that NVLink and NIC work at the same time: one phase. A part goes on slice by
slice: the ``path`` of its first slice over all hops takes as long as `simulator.network.nccl_chunks` says, and while
that is shorter than the transfers of all parts, the hops are hidden behind these. Latency formula and pacing: NCCL 2.30
``src/graph/tuning.cc``, Ring.
"""

from __future__ import annotations

from simulator.collective_calls import CollectiveOp
from simulator.network.collectives.algorithm import Call, Chunks, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.patterns import Rings

PASSES: dict[CollectiveOp, int] = {
    "all_reduce": 2, "barrier": 2, "all_gather": 1, "reduce_scatter": 1, "broadcast": 1, "reduce": 1,
}  # fmt: skip
"""Number of times that the data goes round."""


def stages(call: Call) -> tuple[Stage, ...]:
    """One pipelined phase; see the module's formula."""
    n, m, passes = call.block.size, call.block.node_count, PASSES[call.op]
    network_hops = passes * (m - 1)
    node_hops = passes * (n - 1) - network_hops
    chain = call.op in ("broadcast", "reduce")
    pattern = Rings(call.bytes * (1.0 if chain else passes * (n - 1) / n))
    adding = call.op in ("all_reduce", "reduce_scatter")
    return (
        Stage(
            Latency(near_hops=node_hops) if m == 1 else Latency(paced_hops=node_hops, network_hops=network_hops),
            pattern,
            own_bytes=0.0 if chain else call.bytes / n,
            added_bytes=call.bytes * ((n - 1) / n if adding else 0.0),
            message_bytes=float(call.bytes.max()) / n,
            chunks=None if chain else Chunks("ring", float(call.bytes.max()), steps=passes * (n - 1), far=network_hops),
        ),
    )


RING = register(
    CollectiveAlgorithm(
        name="ring",
        ops=tuple(PASSES),
        description="one ring over all members per NIC; latency grows with the number of members",
        stages=stages,
    )
)
