"""Sends: every message straight to its receiver, all in flight together, as NCCL's grouped sends and receives.

With n members, g on each node, S bytes (sendrecv: of each message; send: the message; gather, scatter:
the root's buffer):

    sendrecv   member i sends S to i + 1 (mod n): base + near_hop, or base + network_hop + post when one leaves a node
               inside a node at no more than NCCL's channels for one message carry;
               each port carries S; of a node's NICs only those of its first and last member carry anything
    scatter    the root sends S / n to each: base + (g - 1) near_hops + (network_hop when n > g), (n - g) posts beside;
               root's NVLink port (g - 1) / n S, its NIC (n - g) / n S
    gather     the same backwards
    send       a gather of 2 members, whose root's own part is as long: 2 S

sendrecv is nccl-tests' ``sendrecv_perf`` (``src/sendrecv.cu``: to the next rank, from the previous one).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.collectives.steps import Step, in_sequence, shifted
from simulator.network.patterns import Sends
from simulator.operators import FloatArray


def stages(call: Call) -> tuple[Stage, ...]:
    """One phase; see the module's formula."""
    if call.op == "sendrecv":
        return _to_the_next(call)
    return _rooted(call, call.bytes if call.op == "send" else call.bytes / call.block.size)


def _to_the_next(call: Call) -> tuple[Stage, ...]:
    (stage,) = in_sequence(call.block, [Step(shifted(call.block, 1), call.bytes)])
    return (replace(stage, one_message=True),)


def _rooted(call: Call, part: FloatArray) -> tuple[Stage, ...]:
    """Messages of ``part`` bytes ``[a, 1]`` between the root and each other member."""
    block, number = call.block, call.root or 0
    root = np.full(block.size - 1, number, dtype=np.int64)
    others = np.delete(np.arange(block.size, dtype=np.int64), number)
    messages = Sends(root, others, part) if call.op == "scatter" else Sends(others, root, part)
    remote = block.size - int(block.local[:, number].min())
    latency = Latency(
        near_hops=float(block.local[:, number].max()) - 1.0, network_hops=1 if remote else 0, messages=remote
    )
    return (Stage(latency, messages, own_bytes=part, message_bytes=float(part.max())),)


SENDS = register(
    CollectiveAlgorithm(
        name="sends",
        ops=("sendrecv", "send", "gather", "scatter"),
        description="each message straight to its receiver, all at once (NCCL's grouped sends)",
        stages=stages,
        shares="sends",
        network_protocols=("simple",),
        over_sites=True,
    )
)
