"""Ring over hosts that cuts each member's part in two, sends the one and adds the other meanwhile (gloo).

With n members on m nodes, S bytes, p = 2 passes for all_reduce and reduce_scatter, 1 for all_gather:

    time = base + 2 p (n - 1) x hop + p (n - 1) / n S / rate, hops and rates as of `ring`

The two halves overlap in what moves their bytes, not in the software of their messages, which one thread does: so each
half has hops of its own. A reduce_scatter is an all_reduce, of which each keeps its part. gloo cc441984
``gloo/allreduce.cc`` (halves of more than 1 MiB are cut further, which is left out: their bytes take far longer than
their messages); PyTorch's ``ProcessGroupGloo.cpp`` for reduce_scatter; all_gather is assumed to be alike.
"""

from __future__ import annotations

from dataclasses import replace

from simulator.network.collectives import ring
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Stage, register

SEGMENTS = 2
"""Number of segments of each member's part."""


def stages(call: Call) -> tuple[Stage, ...]:
    """One pipelined phase; see the module's formula."""
    whole = replace(call, op="all_reduce") if call.op == "reduce_scatter" else call
    return tuple(_in_segments(stage) for stage in ring.stages(whole))


def _in_segments(stage: Stage) -> Stage:
    latency = stage.latency
    return replace(
        stage,
        latency=replace(
            latency,
            near_hops=SEGMENTS * latency.near_hops,
            paced_hops=SEGMENTS * latency.paced_hops,
            network_hops=SEGMENTS * latency.network_hops,
        ),
        message_bytes=stage.message_bytes / SEGMENTS,
    )


SEGMENTED_RING = register(
    CollectiveAlgorithm(
        name="segmented_ring",
        ops=("all_reduce", "all_gather", "reduce_scatter"),
        description="one ring, each part in two messages (gloo); a reduce_scatter is a whole all_reduce",
        stages=stages,
        network_protocols=("simple",),
    )
)
