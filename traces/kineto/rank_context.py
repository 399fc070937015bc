"""Data shared by the importers of a rank's host threads and of its device work while they build its tasks."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field

from simulator.program import IntArray
from traces.collective_args import CollectiveArgs
from traces.kineto.blocked_calls import BlockedCalls
from traces.kineto.device_work import DeviceWork
from traces.kineto.events import EventKind, RankTrace
from traces.kineto.profiler_steps import ProfilerStep
from traces.rank_tasks import RankTasksBuilder

PS_PER_S = 1e12
OUTSIDE = "outside the profiler's steps"
RUNTIME, KERNEL, MEMCPY = int(EventKind.RUNTIME), int(EventKind.KERNEL), int(EventKind.MEMCPY)
"""Kinds as numbers: comparing with the enumeration takes several times as long."""


@dataclass(slots=True)
class RankContext:
    """A rank's trace on its way to tasks.

    Attributes:
        trace: events that were read.
        builder: the tasks so far.
        steps: the profiler's steps.
        parent: the event each event stands in ``[N]``, -1 for none.
        origin_ps: begin of the trace.
        waits: pieces of other streams that each piece of device work waits for.
        blocked: calls that wait for device work.
        gaps: facts that the trace lacks, with counts.
        groups: known facts of each process group.
        launched: host task that launches, by the launching call.
        blocking: (host task, device work it waits for).
    """

    trace: RankTrace
    builder: RankTasksBuilder
    steps: tuple[ProfilerStep, ...]
    device: DeviceWork
    parent: IntArray
    origin_ps: int
    waits: dict[int, list[int]]
    blocked: BlockedCalls
    gaps: Counter[str] = field(default_factory=Counter)
    groups: dict[str, CollectiveArgs] = field(default_factory=dict)
    launched: dict[int, int] = field(default_factory=dict)
    blocking: list[tuple[int, int]] = field(default_factory=list)

    @property
    def slack_ps(self) -> int:
        """Largest error of a difference of two time stamps of the trace."""
        return 2 * self.trace.resolution_ps

    def section(self, at_ps: int) -> str:
        """Name of the step at a time; times between two steps belong to the first."""
        place = bisect_right(self.steps, at_ps, key=lambda step: step.start_ps) - 1
        if place < 0 or (place == len(self.steps) - 1 and at_ps >= self.steps[place].end_ps):
            return OUTSIDE
        return self.steps[place].name
