"""Halving-doubling (Rabenseifner): reduce_scatter by halves, then all_gather by doubling.

With n = 2^k members and S bytes, step i = 0 ... k - 1 of the reduce_scatter exchanges S / 2^(i+1) with the partner at
distance 2^i; the all_gather goes the same way back. Each step takes ``hop_i + bytes_i / rate_i`` after one base
latency. An all_reduce moves 2 (n - 1) / n S, as a ring does, in 2 log2 n steps instead of 2 (n - 1). Thakur,
Rabenseifner, Gropp, IJHPCA 19(1), 2005, section 4.5; Open MPI and MPICH choose it for large messages, gloo as
halving_doubling.
"""

from __future__ import annotations

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Stage, register
from simulator.network.collectives.steps import distances, is_power_of_two, steps


def stages(call: Call) -> tuple[Stage, ...]:
    """A phase per step; see the module's formula."""
    halves = [(d, call.bytes * (0.5 / d)) for d in distances(call.block.size)]
    sizes = {"all_reduce": halves + halves[::-1], "reduce_scatter": halves, "all_gather": halves[::-1]}[call.op]
    return steps(call.block, sizes, exchange=True)


HALVING_DOUBLING = register(
    CollectiveAlgorithm(
        name="halving_doubling",
        ops=("all_reduce", "reduce_scatter", "all_gather"),
        description="halves there and back (Rabenseifner; MPI and gloo, large messages); a power of two of members",
        stages=stages,
        applies=is_power_of_two,
        network_protocols=("simple",),
    )
)
