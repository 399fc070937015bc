"""Linear all_to_all: all sends posted without waiting, at most a window of them under way.

With n members, g on each node, a window of w messages, S bytes sent by each:

    time = base + ceil((g - 1) / w) x near_hop + ceil((n - g) / w) x network_hop
           + max((n - g) x post, (g - 1) / n x S / nvlink, (n - g) / n x S / nic)

Each window pays one hop; network messages are posted while others are under way.
"""

from __future__ import annotations

import math

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.patterns import AllPairs

WINDOW = 32
"""Messages under way: MPICH's MPIR_CVAR_ALLTOALL_THROTTLE (recalled)."""


def stages(call: Call) -> tuple[Stage, ...]:
    """One phase; see the module's formula."""
    block = call.block
    remote = block.size - int(block.local.min())
    windows = math.ceil((block.local_size - 1) / WINDOW), math.ceil(remote / WINDOW)
    latency = Latency(near_hops=windows[0], network_hops=windows[1], messages=remote)
    own = call.bytes / block.size
    pattern = AllPairs(call.bytes, call.send_bytes, call.receive_weights, call.peer_bytes)
    return (Stage(latency, pattern, own_bytes=own, message_bytes=float(own.max())),)


LINEAR = register(
    CollectiveAlgorithm(
        name="linear",
        ops=("all_to_all",),
        description="all messages posted at once, 32 under way (MPI)",
        stages=stages,
        shares="direct",
        network_protocols=("simple",),
    )
)
