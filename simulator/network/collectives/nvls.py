"""NVLS: the NVSwitch adds and copies. Every GPU sends its data once and receives the result once.

With n members of one NVLink domain, S bytes, and o and i the bytes a port sends and receives:

    time = nvls_hop + max(o, i) / nvlink / 0.85

    all_reduce: o = i = S        all_gather: o = S / n, i = S        reduce_scatter: o = S, i = S / n

where the ring of an all_reduce needs 2 (n - 1) / n S. The switch reads from all members, adds on the way and writes to
all of them (multicast objects of NVLink 4 and later), a member's own part included, so latency does not grow with n.
Only where the node's switch can (``in_switch_reduction``), from three members on; the Simple protocol only. Latency
and the 0.85 (Hopper; 0.74 on Blackwell): NCCL 2.30 ``src/graph/tuning.cc``, NVLS.
"""

from __future__ import annotations

import numpy as np

from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register, switch_adds
from simulator.network.patterns import NearAndFar
from simulator.network.traffic import Traffic, both_ways

EFFICIENCY = 0.85
"""Fraction of the links' bandwidth on Hopper; NCCL 2.30 ``src/graph/tuning.cc``, ``nvlsEfficiency``."""


def stages(call: Call) -> tuple[Stage, ...]:
    """One phase; see the module's formula."""
    part = call.bytes / call.block.size
    near = {
        "all_reduce": both_ways(call.bytes),
        "all_gather": Traffic(part, call.bytes),
        "reduce_scatter": Traffic(call.bytes, part),
    }[call.op]
    far = both_ways(np.zeros((1, 1)))
    return (Stage(Latency(table="nvls", near_hops=1), NearAndFar(near, far), EFFICIENCY),)


def applies(block: Block) -> bool:
    """Whether all members share an NVLink domain, and a ring would send more."""
    return block.node_count == 1 and block.size > 2


NVLS = register(
    CollectiveAlgorithm(
        name="nvls",
        ops=("all_reduce", "all_gather", "reduce_scatter"),
        description="the NVSwitch adds (NVLink SHARP); one NVLink domain with in-switch reduction",
        stages=stages,
        shares="nvls",
        applies=applies,
        near_protocols=("simple",),
        runs_on=switch_adds,
    )
)
