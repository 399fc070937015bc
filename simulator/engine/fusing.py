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

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import numpy as np
import simpy

from simulator.engine.controllers import ReadyTask, RunAs, View
from simulator.lowered import FusedCalls, LoweredProgram

AT_ONCE = RunAs(None)
"""A call whose data another one has carried."""


@dataclass(slots=True)
class _Call:
    """A call of an iteration, as far as ranks are ready for it.

    Attributes:
        since_ps: time at which the last of them became so.
        ranks: their number.
        tasks: their tasks that are ready.
    """

    iteration: int
    call: int
    since_ps: int = 0
    ranks: int = 0
    tasks: list[ReadyTask] = field(default_factory=list)

    @property
    def order(self) -> tuple[int, int, int]:
        """Place among other ready calls: by the time, ties in program order."""
        return self.since_ps, self.iteration, self.call

    def add(self, task: ReadyTask) -> int:
        """More ranks are ready; returns how many there are now."""
        self.since_ps = max(self.since_ps, task.since_ps)
        self.ranks += len(task.members)
        self.tasks.append(task)
        return self.ranks


class FusingCoordinator:
    """The controller of streams whose calls are fused, for one run."""

    def __init__(self, program: LoweredProgram, calls: FusedCalls) -> None:
        """Nothing was negotiated yet."""
        self._calls = calls
        self._members = np.zeros(len(calls.bytes), dtype=np.int64)
        for group, call_of in zip(program.groups, calls.call_of, strict=True):
            np.add.at(self._members, call_of[call_of >= 0], group.rank_count)
        self._begun: dict[tuple[int, int], _Call] = {}
        self._ready: list[_Call] = []

    def control(self, view: View) -> Generator[simpy.Event, object, None]:
        """The background threads of all ranks."""
        first_ps = 0
        while True:
            while not self._is_ready(view):
                yield view.changed()
            begin_ps = self._cycle_ps(first_ps, view.now)
            if begin_ps > view.now:
                yield view.sleep(begin_ps - view.now)
            buffers = self._buffers(self._taken(view))
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

    def _is_ready(self, view: View) -> bool:
        """Whether all ranks are ready for some call."""
        for task in view.take_ready():
            number = int(self._calls.call_of[task.group][task.task])
            call = self._begun.setdefault((task.iteration, number), _Call(task.iteration, number))
            if call.add(task) == self._members[number]:
                self._ready.append(self._begun.pop((task.iteration, number)))
        return bool(self._ready)

    def _taken(self, view: View) -> list[_Call]:
        """All calls that all ranks are ready for, in the order in which they became so."""
        self._is_ready(view)
        taken, self._ready = sorted(self._ready, key=lambda each: each.order), []
        return taken

    def _buffers(self, ready: Sequence[_Call]) -> list[list[_Call]]:
        """Calls in the order in which they are ready, cut where the buffer is full."""
        buffers: list[list[_Call]] = []
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

    def _run(self, view: View, buffer: Sequence[_Call]) -> Generator[simpy.Event, object, None]:
        """Run a buffer to its end."""
        carrier, riders = buffer[-1], buffer[:-1]
        run_as = self._fused(sum(int(self._calls.bytes[call.call]) for call in buffer), copied=bool(riders))
        for task in carrier.tasks:
            view.issue(task, run_as)
        while view.under_way:
            yield view.changed()
        for rider in riders:
            for task in rider.tasks:
                view.issue(task, AT_ONCE)
        while view.under_way:
            yield view.changed()

    def _fused(self, size: int, *, copied: bool) -> RunAs:
        """A call of so many bytes."""
        calls = self._calls
        step = min(int(np.searchsorted(calls.sizes, size)), len(calls.sizes) - 1)
        copies_ps = round(size * calls.copy_ps_per_byte) if copied else 0
        part = (size, int(calls.sizes[step]))
        return RunAs(int(calls.activities[step]), part, calls.announcement_ps + copies_ps)
