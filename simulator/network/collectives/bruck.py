"""Bruck: ceil(log2 n) steps, in step i member r sends to r + 2^i.

With n members and S bytes (all_to_all: sent by each; all_gather: the output):

    all_to_all: step i moves the blocks whose number has bit i set, (how many of 1 ... n - 1) x S / n
    all_gather: step i moves min(2^i, n - 2^i) x S / n

each ``hop_i + bytes_i / rate_i`` after one base latency. An all_to_all sends up to log2(n) / 2 times as many bytes as a
direct one in far fewer messages: for small messages. Bruck et al., IEEE TPDS 8(11), 1997; Open MPI and MPICH choose it
there. Even sizes only.
"""

from __future__ import annotations

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Stage, register
from simulator.network.collectives.steps import Step, doublings, in_sequence, shifted


def stages(call: Call) -> tuple[Stage, ...]:
    """A phase per step; see the module's formula."""
    n = call.block.size
    blocks = with_bit if call.op == "all_to_all" else _gathered
    steps = [Step(shifted(call.block, d), call.bytes * (blocks(n, d) / n)) for d in doublings(call.block)]
    return in_sequence(call.block, steps, call.bytes / n)


def with_bit(n: int, bit: int) -> int:
    """Count of the numbers 1 ... n - 1 that have ``bit`` (a power of two) set."""
    whole, rest = divmod(n, 2 * bit)
    return whole * bit + max(0, rest - bit)


def _gathered(n: int, distance: int) -> int:
    return min(distance, n - distance)


BRUCK = register(
    CollectiveAlgorithm(
        name="bruck",
        ops=("all_to_all", "all_gather"),
        description="ceil(log2 n) steps of many blocks each (MPI, small messages)",
        stages=stages,
        shares="direct",
        network_protocols=("simple",),
    )
)
