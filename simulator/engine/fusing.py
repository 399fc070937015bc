"""A coordinator that fuses collectives at run time, as Horovod's background threads do.

In cycles the coordinator hears which calls every rank is ready for, and answers which of them run now: those that all
ranks are ready for, in the order in which they became so, calls after each other in one buffer as long as it holds
them. A call that is larger than the buffer runs alone. The next cycle begins a cycle time after the last one began, or
when its calls have ended if that is later (horovod 0.15, ``common/operations.cc``: ``RunLoopOnce``). Cycles in which
nothing is ready take no time.

A fused buffer runs on the task of its last call, as the activity of the next larger known size with the buffer's part
of its work; the other calls of the buffer end with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
import simpy

from simulator.engine.controllers import ReadyTask, RunAs, View
from simulator.lowered import FusedCalls, LoweredProgram

AT_ONCE = RunAs(None)
"""A call whose data another one has carried."""


@dataclass(frozen=True, slots=True)
class _ReadyCall:
    """A call that all ranks are ready for."""

    since_ps: int
    iteration: int
    call: int
    tasks: tuple[ReadyTask, ...]

    @property
    def order(self) -> tuple[int, int, int]:
        """Place among other ready calls: by the time, ties in program order."""
        return self.since_ps, self.iteration, self.call


class FusingCoordinator:
    """The controller of streams whose calls are fused."""

    def __init__(self, program: LoweredProgram, calls: FusedCalls) -> None:
        """Nothing was negotiated yet."""
        self._calls = calls
        self._members = np.zeros(len(calls.bytes), dtype=np.int64)
        for group, call_of in zip(program.groups, calls.call_of, strict=True):
            np.add.at(self._members, call_of[call_of >= 0], group.rank_count)

    def control(self, view: View) -> Generator[simpy.Event, object, None]:
        """The background threads of all ranks."""
        first_ps = 0
        while True:
            while not self._ready(view):
                yield view.changed()
            begin_ps = self._cycle_ps(first_ps, view.now)
            if begin_ps > view.now:
                yield view.sleep(begin_ps - view.now)
            buffers = self._buffers(self._ready(view))
            if self._calls.negotiation_ps:
                yield view.sleep(self._calls.negotiation_ps)
            for buffer in buffers:
                yield from self._run(view, buffer)
            first_ps = max(begin_ps + self._calls.cycle_ps, view.now)

    def _cycle_ps(self, first_ps: int, now_ps: int) -> int:
        """Begin of the first cycle from now on; one began, or begins, at ``first_ps``."""
        cycle = self._calls.cycle_ps
        if cycle == 0 or now_ps <= first_ps:
            return max(first_ps, now_ps)
        return first_ps - (first_ps - now_ps) // cycle * cycle

    def _ready(self, view: View) -> list[_ReadyCall]:
        """Calls that all ranks are ready for, in the order in which they became so."""
        found: dict[tuple[int, int], list[ReadyTask]] = defaultdict(list)
        for lane, tasks in view.ready.items():
            call_of = self._calls.call_of[lane[0]]
            for task in tasks:
                found[task.iteration, int(call_of[task.task])].append(task)
        complete = [
            _ReadyCall(max(task.since_ps for task in tasks), iteration, call, tuple(tasks))
            for (iteration, call), tasks in found.items()
            if len(tasks) == self._members[call]
        ]
        return sorted(complete, key=lambda each: each.order)

    def _buffers(self, ready: Sequence[_ReadyCall]) -> list[list[_ReadyCall]]:
        """Calls in the order in which they are ready, cut where the buffer is full."""
        buffers: list[list[_ReadyCall]] = []
        filled = 0
        for call in ready:
            size = int(self._calls.bytes[call.call])
            if buffers and filled + size <= self._calls.fusion_bytes:
                buffers[-1].append(call)
                filled += size
            else:
                buffers.append([call])
                filled = size
        return buffers

    def _run(self, view: View, buffer: Sequence[_ReadyCall]) -> Generator[simpy.Event, object, None]:
        """Run a buffer to its end."""
        carrier, riders = buffer[-1], buffer[:-1]
        run_as = self._fused(sum(int(self._calls.bytes[call.call]) for call in buffer), copied=bool(riders))
        for task in carrier.tasks:
            view.issue(task, run_as)
        while view.under_way.total():
            yield view.changed()
        for rider in riders:
            for task in rider.tasks:
                view.issue(task, AT_ONCE)
        while view.under_way.total():
            yield view.changed()

    def _fused(self, size: int, *, copied: bool) -> RunAs:
        """A call of so many bytes."""
        calls = self._calls
        step = min(int(np.searchsorted(calls.sizes, size)), len(calls.sizes) - 1)
        copies_ps = round(size * calls.copy_ps_per_byte) if copied else 0
        part = (size, int(calls.sizes[step]))
        return RunAs(int(calls.activities[step]), part, calls.announcement_ps + copies_ps)
