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

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.collectives.steps import down_the_tree, hops_out, in_turn, up_the_tree
from simulator.network.patterns import shift


def stages(call: Call) -> tuple[Stage, ...]:
    """A phase per step of the tree, and one for the ring; see the module's formula."""
    n, part = call.block.size, call.bytes / call.block.size
    if call.op == "broadcast":
        return (*in_turn(call.block, down_the_tree(n, part, parts=True)), _round_the_ring(call, starts=0.0))
    return (_round_the_ring(call, starts=1.0), *in_turn(call.block, up_the_tree(n, part, parts=True), starts=0.0))


def _round_the_ring(call: Call, *, starts: float) -> Stage:
    n = call.block.size
    ring = shift(n, 1, call.bytes * ((n - 1) / n))
    far = min(hops_out(call.block, ring), n - 1)
    return Stage(Latency(starts=starts, near_hops=n - 1 - far, network_hops=far, posts=far), ring)


SCATTER_RING = register(
    CollectiveAlgorithm(
        name="scatter_ring",
        ops=("broadcast", "reduce"),
        description="in parts down a tree, then round a ring (van de Geijn; MPI, large messages); a reduce backwards",
        stages=stages,
        network_protocols=("simple",),
    )
)
