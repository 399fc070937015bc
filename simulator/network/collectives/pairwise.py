"""Pairwise all_to_all: n - 1 rounds, in round r member i exchanges one block with the member r further.

With n members, g on each node, S bytes sent by each:

    time = base + (g - 1) x near_hop + (n - g) x (network_hop + post)
           + max((g - 1) / n x S / nvlink, (n - g) / n x S / nic)

A round starts when the one before has ended, so every message pays its hop; a partner inside the node is met in g - 1
of the rounds. MPI_Sendrecv in a loop: Open MPI and MPICH choose it for large messages, gloo always.
"""

from __future__ import annotations

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.patterns import AllPairs


def stages(call: Call) -> tuple[Stage, ...]:
    """One phase; see the module's formula."""
    block = call.block
    remote = block.size - int(block.local.min())
    latency = Latency(near_hops=block.local_size - 1, network_hops=remote, posts=remote)
    own = call.bytes / block.size
    pattern = AllPairs(call.bytes, call.send_bytes, call.receive_weights, call.peer_bytes)
    return (Stage(latency, pattern, own_bytes=own, message_bytes=float(own.max())),)


PAIRWISE = register(
    CollectiveAlgorithm(
        name="pairwise",
        ops=("all_to_all",),
        description="n - 1 rounds of one exchange each (MPI, gloo)",
        stages=stages,
        shares="direct",
        network_protocols=("simple",),
    )
)
