"""Binomial tree: ceil(log2 n) steps at distances 2^k, ..., 2, 1 from member 0, or back to it.

With n members and S bytes (gather, scatter: the root's buffer), the step at distance d takes

    broadcast, reduce    hop_d + S / rate_d
    scatter, gather      hop_d + min(d, n - d) S / n / rate_d

after one base latency; hop and rate are those of NVLink (or PCIe) while all partners are in their node, else of the
network. The tree of ``MPI_Bcast``: a broadcast sends everything log2 n times one after the other, so it is for small
messages; a scatter halves the bytes it sends at each step. Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, section
4.3; MPICH chooses it up to 12 KiB or below 8 members. Reduce and gather are broadcast and scatter backwards.
"""

from __future__ import annotations

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Stage, register
from simulator.network.collectives.steps import down_the_tree, in_sequence, up_the_tree


def stages(call: Call) -> tuple[Stage, ...]:
    """A phase per step; see the module's formula."""
    parts = call.op in ("scatter", "gather")
    tree = down_the_tree if call.op in ("broadcast", "scatter") else up_the_tree
    amount = call.bytes / call.block.size if parts else call.bytes
    return in_sequence(call.block, tree(call.block, amount, parts=parts))


BINOMIAL = register(
    CollectiveAlgorithm(
        name="binomial",
        ops=("broadcast", "reduce", "scatter", "gather"),
        description="ceil(log2 n) steps down a tree or up again (MPI, small messages)",
        stages=stages,
        shares="direct",
        network_protocols=("simple",),
    )
)
