"""Broadcast as scatter + all_gather by recursive doubling; reduce as reduce_scatter by halves + gather.

With n = 2^k members and S bytes: the steps of a binomial scatter at distances n/2, ..., 2, 1, then exchanges at
distances 1, 2, ..., n/2; the steps at distance d move d S / n each:

    time = base + 2 sum over d = 1, 2, ..., n/2 of (hop_d + d S / n / rate_d)

Twice (n - 1) / n S in 2 log2 n steps: for medium messages. Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, sections
4.3 and 4.4 (the reduce is Rabenseifner's); MPICH chooses it for a broadcast from 12 to 512 KiB.
"""

from __future__ import annotations

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Stage, register
from simulator.network.collectives.steps import (
    Step,
    doublings,
    down_the_tree,
    exchanged,
    in_sequence,
    is_power_of_two,
    up_the_tree,
)


def stages(call: Call) -> tuple[Stage, ...]:
    """A phase per step; see the module's formula."""
    block, part, adds = call.block, call.bytes / call.block.size, call.op == "reduce"
    exchanges = [Step(exchanged(block, d), part * d, adds) for d in doublings(block)]
    if call.op == "broadcast":
        return in_sequence(block, [*down_the_tree(block, part, parts=True), *exchanges])
    return in_sequence(block, [*reversed(exchanges), *up_the_tree(block, part, parts=True)], call.bytes)


SCATTER_DOUBLING = register(
    CollectiveAlgorithm(
        name="scatter_doubling",
        ops=("broadcast", "reduce"),
        description="in parts down a tree, then exchanged in pairs (MPI, medium messages); a power of two of members",
        stages=stages,
        shares="direct",
        applies=is_power_of_two,
        network_protocols=("simple",),
    )
)
