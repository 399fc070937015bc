"""Direct: every member sends each other member the part that it reduces, or its result, at once.

With n members, g on each node, S bytes; a reduce_scatter is the first half of an all_reduce, an all_gather the second:

    half = base + near_hop + network_hop
           + max((n - g) x post, (g - 1) / n x S / nvlink, (n - g) / n x S / nic)

It moves as much as a ring in two hops instead of 2 (n - 1), at the price of n - 1 messages at once. oneCCL's nreduce,
for medium sizes (``src/coll/algorithms/allreduce``); MPICH's pairwise reduce_scatter is close to it.
"""

from __future__ import annotations

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.patterns import AllPairs


def stages(call: Call) -> tuple[Stage, ...]:
    """A phase for each half; see the module's formula."""
    block, part = call.block, call.bytes / call.block.size
    remote = block.size - int(block.local.min())
    kinds = {"all_reduce": (True, False), "reduce_scatter": (True,), "all_gather": (False,)}[call.op]
    return tuple(
        Stage(
            Latency(
                starts=1 if number == 0 else 0,
                near_hops=1 if block.local_size > 1 else 0,
                network_hops=1 if remote else 0,
                messages=remote,
            ),
            AllPairs(call.bytes),
            own_bytes=part if number == 0 else 0.0,
            added_bytes=call.bytes - part if adds else 0.0,
            message_bytes=float(part.max()),
        )
        for number, adds in enumerate(kinds)
    )


DIRECT = register(
    CollectiveAlgorithm(
        name="direct",
        ops=("all_reduce", "reduce_scatter", "all_gather"),
        description="each member's part straight to whoever reduces it, results straight back (oneCCL's nreduce)",
        stages=stages,
        shares="direct",
        network_protocols=("simple",),
    )
)
