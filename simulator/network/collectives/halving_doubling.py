"""Halving-doubling (Rabenseifner): reduce_scatter by halves, then all_gather by doubling.

With n = 2^k members and S bytes, step i = 0 ... k - 1 of the reduce_scatter exchanges S / 2^(i+1) with the partner at
distance 2^i; the all_gather goes the same way back. Each step takes ``hop_i + bytes_i / rate_i`` after one base
latency. An all_reduce moves 2 (n - 1) / n S, as a ring does, in 2 log2 n steps instead of 2 (n - 1); with other numbers
of members it folds (`simulator.network.collectives.steps`). Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, section
4.5; Open MPI and MPICH choose it for large messages, gloo as halving_doubling.
"""

from __future__ import annotations

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Stage, register
from simulator.network.collectives.steps import Step, exchanged, folded, halvings, in_sequence, is_power_of_two


def stages(call: Call) -> tuple[Stage, ...]:
    """A phase per step; see the module's formula."""
    block, size = call.block, call.bytes
    down = [Step(exchanged(block, d), size * (0.5 / d), adds=True) for d in halvings(block)]
    up = [Step(step.target, step.bytes) for step in reversed(down)]
    if call.op == "all_reduce":
        return in_sequence(block, folded(block, down + up, size, adds=True), size)
    return in_sequence(block, down if call.op == "reduce_scatter" else up, size / block.size)


HALVING_DOUBLING = register(
    CollectiveAlgorithm(
        name="halving_doubling",
        ops=("all_reduce",),
        description="halves there and back (Rabenseifner; MPI and gloo, large messages)",
        stages=stages,
        network_protocols=("simple",),
    )
)
HALVES = register(
    CollectiveAlgorithm(
        name="halving_doubling",
        ops=("reduce_scatter", "all_gather"),
        description="halves there, or back (MPI); a power of two of members",
        stages=stages,
        shares="direct",
        applies=is_power_of_two,
        network_protocols=("simple",),
    )
)
