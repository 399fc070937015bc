"""Broadcast as scatter + all_gather round a ring (van de Geijn); reduce as reduce_scatter round a ring + gather.

With n members, S bytes and k of the ring's n hops between nodes (at most n - 1 on a block's way):

    time = base + steps of a binomial scatter, distance d: hop_d + min(d, n - d) S / n / rate_d
         + (n - 1 - k) near_hops + k (network_hops + posts) + (n - 1) / n S / rate

The ring is one, in rank order: a node's border NIC carries all of it. Twice the bytes of one copy instead of log2 n
times, in log2 n + n - 1 steps: for large messages. Barnett, Shuler, van de Geijn et al., SHPCC 1994; Thakur,
Rabenseifner, Gropp, IJHPCA 19(1), 2005, section 4.3; MPICH chooses it for a broadcast above 512 KiB. A reduce is the
same backwards.
"""

from __future__ import annotations

import numpy as np

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.collectives.steps import down_the_tree, in_sequence, leaving, shifted, up_the_tree
from simulator.network.patterns import Sends


def stages(call: Call) -> tuple[Stage, ...]:
    """A phase per step of the tree, and one for the ring; see the module's formula."""
    block, part = call.block, call.bytes / call.block.size
    if call.op == "broadcast":
        return (*in_sequence(block, down_the_tree(block, part, parts=True)), _round_the_ring(call))
    return (_round_the_ring(call), *in_sequence(block, up_the_tree(block, part, parts=True), starts=0.0))


def _round_the_ring(call: Call) -> Stage:
    block, n, reduces = call.block, call.block.size, call.op == "reduce"
    moved, target = call.bytes * ((n - 1) / n), shifted(block, 1)
    far = min(leaving(block, target), n - 1)
    return Stage(
        Latency(starts=1.0 if reduces else 0.0, near_hops=n - 1 - far, network_hops=far, posts=far),
        Sends(np.arange(n), target, moved),
        own_bytes=call.bytes if reduces else 0.0,
        added_bytes=moved if reduces else 0.0,
        message_bytes=float(call.bytes.max()) / n,
    )


SCATTER_RING = register(
    CollectiveAlgorithm(
        name="scatter_ring",
        ops=("broadcast", "reduce"),
        description="in parts down a tree, then round a ring (van de Geijn; MPI, large messages); a reduce backwards",
        stages=stages,
        shares="direct",
        network_protocols=("simple",),
    )
)
