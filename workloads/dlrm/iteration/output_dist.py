"""output_dist: the collectives that bring pooled vectors to the ranks of their samples, and their gradients back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.operators import Elementwise
from simulator.precisions import QUANTISED, WIRE_BYTES
from workloads.dlrm.iteration.groups import EmbeddingGroup
from workloads.dlrm.rows.cache import amount
from workloads.graph.levels import CROSS_NODE, NODE, WORLD
from workloads.graph.recorder import COMM, CROSS_NODE_COMM, DEFAULT, NODE_COMM, Recorder

_STREAMS = {WORLD: COMM, NODE: NODE_COMM, CROSS_NODE: CROSS_NODE_COMM}


def record_exchange(
    recorder: Recorder,
    group: EmbeddingGroup,
    direction: Literal["forward", "backward"],
    calls: Sequence[CollectiveCall],
    *,
    after: int | None = None,
    stream: str = DEFAULT,
) -> int:
    """Record ``calls``, some of the group's; returns the last one, or ``after`` when there are none.

    ``stream`` waits for a call (and for ``after``, the one before the first) before the next one is issued, as
    TorchRec waits for the reduce_scatter inside the node before it starts the all_to_all across nodes
    (torchrec/distributed/sharding/twrw_sharding.py). Values in 8 bits are quantised before their call; received
    gradients in 8 bits are converted back before the next call.
    """
    section = f"embedding_{direction}"
    for call in calls:
        name = _name(group, direction, call)
        if after is not None:
            recorder.stream_wait(f"wait_before_{name}", after, section=section, stream=stream)
            if direction == "backward":
                record_dequantise(recorder, group, group.backward[0], stream=stream)
        if direction == "forward" and call.dtype in QUANTISED:
            elements = np.asarray(call.bytes) / WIRE_BYTES[call.dtype]
            work = Elementwise(amount(elements * WIRE_BYTES["fp32"]), call.bytes)
            recorder.kernel(f"{name}_quantise", work, section=section, stream=stream)
        after = _issue(recorder, group, direction, call, stream)
    if after is None:
        raise ValueError(f"the {group.kind} group exchanges nothing")
    return after


def _issue(
    recorder: Recorder,
    group: EmbeddingGroup,
    direction: Literal["forward", "backward"],
    call: CollectiveCall,
    stream: str,
) -> int:
    """One call, or the scatters (of gradients: gathers) that stand for it; returns the last one, which ends last."""
    name, section = _name(group, direction, call), f"embedding_{direction}"
    calls = [call]
    if group.scattered and call.op == "all_to_all":
        op: Literal["scatter", "gather"] = "scatter" if direction == "forward" else "gather"
        share = float(np.broadcast_to(call.bytes, recorder.rank_count).sum()) / sum(group.scattered)
        calls = [CollectiveCall(op, call.communicator, part * share, call.dtype) for part in group.scattered]
    tasks: list[int] = []
    for number, one in enumerate(calls, start=1):
        shown = name if number == len(calls) else f"{name}_{number}"
        on = _STREAMS[one.communicator]
        tasks.append(recorder.collective(shown, one, section=section, issued_from=stream, stream=on))
    return tasks[-1]


def record_dequantise(
    recorder: Recorder, group: EmbeddingGroup, call: CollectiveCall, *, stream: str = DEFAULT, after: Sequence[int] = ()
) -> Sequence[int]:
    """Convert the gradients of ``call`` back to fp32 if they are received in 8 bits; returns the tasks to wait for.

    A rank receives the gradients of the vectors that it sent in the forward call of the same kind.
    """
    if call.dtype not in QUANTISED:
        return after
    sent = next(one for one in group.forward if one.op == call.op)
    elements = np.asarray(sent.bytes) / WIRE_BYTES[sent.dtype]
    work = Elementwise(amount(elements * WIRE_BYTES[call.dtype]), amount(elements * WIRE_BYTES["fp32"]))
    name = f"{_name(group, 'backward', call)}_dequantise"
    return [recorder.kernel(name, work, section="embedding_backward", stream=stream, after=after)]


def pooled_name(group: EmbeddingGroup) -> str:
    """The task after which the pooled vectors of a group are there: output_dist, or the lookup of copied tables."""
    return _name(group, "forward", group.forward[-1]) if group.forward else f"{group.kind}_lookup"


def _name(group: EmbeddingGroup, direction: Literal["forward", "backward"], call: CollectiveCall) -> str:
    name = f"{group.kind}_output_dist_{direction}"
    return name if call.communicator == WORLD else f"{name}_{call.communicator}"
