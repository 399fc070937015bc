"""Uses of models outside the range they were derived from, with their share of the time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.lowering.collective import LoweredCollective
from simulator.lowering.machine import Machine
from simulator.lowering.result import ModelWarning
from simulator.operators import Amount
from simulator.program import TaskGraph


def warnings_of(
    graph: TaskGraph, machine: Machine, seconds: Sequence[Mapping[int, Amount]], calls: Sequence[LoweredCollective]
) -> tuple[ModelWarning, ...]:
    """One warning per model and message, the largest share first.

    The share is of the summed task durations of an iteration: kernels, copies and host tasks as the mean over ranks,
    collectives as they take on an idle machine.
    """
    spent: dict[tuple[str, str], list[float]] = defaultdict(list)
    total = 0.0
    for program, times in zip(graph.programs, seconds, strict=True):
        weight = program.rank_count / graph.world_size
        for task, value in times.items():
            mean = float(np.mean(value)) * weight
            total += mean
            work = program.work[task]
            reason = None if isinstance(work, CollectiveCall) else machine.compute.outside_range(work)
            if reason and mean > 0.0:
                spent["compute", reason].append(mean)
    for call in calls:
        total += call.info.alone_s
        for reason in call.outside_range:
            spent["network", reason].append(call.info.alone_s)
    found = [
        ModelWarning(model, message, sum(times) / total if total > 0.0 else 0.0, len(times))
        for (model, message), times in spent.items()
    ]
    return tuple(sorted(found, key=lambda warning: -warning.share))
