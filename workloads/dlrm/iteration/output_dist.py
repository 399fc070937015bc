"""output_dist: the collectives that bring pooled vectors to the ranks of their samples, and their gradients back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from simulator.operators import CollectiveCall
from workloads.dlrm.iteration.groups import CROSS_NODE, NODE, WORLD, EmbeddingGroup
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
    (torchrec/distributed/sharding/twrw_sharding.py).
    """
    section = f"embedding_{direction}"
    for call in calls:
        name = _name(group, direction, call)
        if after is not None:
            recorder.stream_wait(f"wait_before_{name}", after, section=section, stream=stream)
        after = recorder.collective(name, call, section=section, issued_from=stream, stream=_STREAMS[call.communicator])
    if after is None:
        raise ValueError(f"the {group.kind} group exchanges nothing")
    return after


def pooled_name(group: EmbeddingGroup) -> str:
    """The task after which the pooled vectors of a group are there: output_dist, or the lookup of copied tables."""
    return _name(group, "forward", group.forward[-1]) if group.forward else f"{group.kind}_lookup"


def _name(group: EmbeddingGroup, direction: Literal["forward", "backward"], call: CollectiveCall) -> str:
    name = f"{group.kind}_output_dist_{direction}"
    return name if call.communicator == WORLD else f"{name}_{call.communicator}"
