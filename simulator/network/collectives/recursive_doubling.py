"""Recursive doubling: log2 n exchanges with partners at distance 1, 2, 4, ...

With n = 2^k members and S bytes, step i = 0 ... k - 1 has partners at distance 2^i and takes

    all_reduce: hop_i + S / rate_i              all_gather: hop_i + 2^i S / n / rate_i

after one base latency; hop and rate are those of NVLink (or PCIe) while the partner is in the node, else of the
network, where the members that share a NIC also share its rate. Latency grows with log2 n, but an all_reduce sends
the whole buffer log2 n times: for small messages. Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, sections 4.2 and
4.5; Open MPI and MPICH choose it there.
"""

from __future__ import annotations

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Stage, register
from simulator.network.collectives.steps import distances, is_power_of_two, steps


def stages(call: Call) -> tuple[Stage, ...]:
    """A phase per step; see the module's formula."""
    n = call.block.size
    gathers = call.op == "all_gather"
    sizes = [(d, call.bytes * (d / n if gathers else 1.0)) for d in distances(call.block.size)]
    return steps(call.block, sizes, exchange=True)


RECURSIVE_DOUBLING = register(
    CollectiveAlgorithm(
        name="recursive_doubling",
        ops=("all_reduce", "all_gather", "barrier"),
        description="log2 n exchanges of everything known so far (MPI, small messages); a power of two of members",
        stages=stages,
        applies=is_power_of_two,
        network_protocols=("simple",),
    )
)
