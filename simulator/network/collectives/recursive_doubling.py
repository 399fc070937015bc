"""Recursive doubling: log2 n exchanges with partners at distance 1, 2, 4, ...

With n = 2^k members and S bytes, step i = 0 ... k - 1 has partners at distance 2^i and takes

    all_reduce: hop_i + S / rate_i              all_gather: hop_i + 2^i S / n / rate_i

after one base latency; hop and rate are those of NVLink (or PCIe) while the partner is in the node, else of the
network, where the members that share a NIC also share its rate. Latency grows with log2 n, but an all_reduce sends
the whole buffer log2 n times: for small messages. With other numbers of members an all_reduce first folds
(`simulator.network.collectives.steps`). Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, sections 4.2 and 4.5; Open
MPI and MPICH choose it there.
"""

from __future__ import annotations

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Stage, register
from simulator.network.collectives.steps import Step, exchanged, folded, halvings, in_sequence, is_power_of_two


def stages(call: Call) -> tuple[Stage, ...]:
    """A phase per step; see the module's formula."""
    inner = [Step(exchanged(call.block, d), call.bytes, adds=True) for d in halvings(call.block)]
    return in_sequence(call.block, folded(call.block, inner, call.bytes, adds=True), call.bytes)


def gathering_stages(call: Call) -> tuple[Stage, ...]:
    """A phase per step; the exchanged bytes double."""
    n = call.block.size
    steps = [Step(exchanged(call.block, d), call.bytes * (d / n)) for d in halvings(call.block)]
    return in_sequence(call.block, steps, call.bytes / n)


RECURSIVE_DOUBLING = register(
    CollectiveAlgorithm(
        name="recursive_doubling",
        ops=("all_reduce", "barrier"),
        description="log2 n exchanges of the whole buffer (MPI, small messages)",
        stages=stages,
        network_protocols=("simple",),
    )
)
RECURSIVE_DOUBLING_GATHER = register(
    CollectiveAlgorithm(
        name="recursive_doubling",
        ops=("all_gather",),
        description="log2 n exchanges of everything known so far (MPI, small messages); a power of two of members",
        stages=gathering_stages,
        shares="direct",
        applies=is_power_of_two,
        network_protocols=("simple",),
    )
)
