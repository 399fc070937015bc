"""NVLS: the NVSwitch adds. Every GPU sends its buffer once and receives the sum once.

With n members of one NVLink domain and S bytes:

    time = nvls_hop + S / nvlink / 0.85

where a ring needs 2 (n - 1) / n S. The switch reads from all members and adds on the way (multicast objects of NVLink
4 and later), so latency does not grow with n. Only where the node's switch can (``in_switch_reduction``), from three
members on; the Simple protocol only. Latency and the 0.85 (Hopper): NCCL 2.30 ``src/graph/tuning.cc``, NVLS.
"""

from __future__ import annotations

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.membership import Block
from simulator.network.patterns import Rings

EFFICIENCY = 0.85
"""Of the links, Hopper; NCCL 2.30 ``src/graph/tuning.cc``, ``nvlsEfficiency``."""


def stages(call: Call) -> tuple[Stage, ...]:
    """One phase; see the module's formula."""
    return (Stage(Latency(table="nvls", near_hops=1), Rings(call.bytes), EFFICIENCY),)


def applies(block: Block) -> bool:
    """Whether all members share an NVLink domain, and a ring would send more."""
    return block.node_count == 1 and block.size > 2


NVLS = register(
    CollectiveAlgorithm(
        name="nvls",
        ops=("all_reduce",),
        description="the NVSwitch adds (NVLink SHARP); one NVLink domain with in-switch reduction",
        stages=stages,
        applies=applies,
        near_protocols=("simple",),
        in_switch=True,
    )
)
