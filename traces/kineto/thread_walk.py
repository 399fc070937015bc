"""Cuts a host thread into tasks: one up to each call that the device notices, one for each call that waits for it."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.categories import Category
from simulator.operators import Delay, Measured
from simulator.work import Work
from traces.description import WOKEN
from traces.kineto.host_threads import Handover, Thread
from traces.kineto.kernel_names import LONGEST_NAME
from traces.kineto.rank_context import PS_PER_S, RUNTIME, RankContext


class ThreadWalk:
    """Cuts one host thread into tasks."""

    def __init__(
        self,
        context: RankContext,
        threads: Sequence[Thread],
        number: int,
        first_device: dict[int, int],
        syncs: set[int],
        handed: Sequence[Handover],
        cut_tasks: dict[tuple[int, int], int],
        resumed: list[tuple[int, Handover]],
    ) -> None:
        self._context, self._thread, self._number = context, threads[number], number
        self._first_device, self._syncs = first_device, syncs
        self._handed, self._cut_tasks, self._resumed = handed, cut_tasks, resumed
        self._events, self._builder = context.trace.events, context.builder
        self._stream = self._builder.stream("host" if number == 0 else f"host thread {number + 1}")
        self._now = context.origin_ps
        self._last = -1

    def run(self) -> None:
        """Append the thread's tasks."""
        first = int(self._events.start_ps[self._thread.rows[0]])
        if all(h.thread != self._number or h.begin_ps != self._now for h in self._handed):
            self._delay(first, "silent before its first event")
        for at_ps, _, what in self._points():
            if isinstance(what, Handover):
                if what.thread == self._number:
                    self._resume(what)
                else:
                    self._cut(at_ps)
            elif what in self._first_device:
                self._launch(what)
            else:
                self._wait(what, self._waited_for(what), int(self._events.end_ps[what]))
        self._until(int(self._thread.top_end_ps[-1]), "end of the trace")

    def _points(self) -> list[tuple[int, int, int | Handover]]:
        """Calls and handovers of the thread by time."""
        starts = self._events.start_ps
        calls = [r for r in self._thread.rows.tolist() if r in self._first_device or r in self._syncs]
        points: list[tuple[int, int, int | Handover]] = [(int(starts[row]), 1, row) for row in calls]
        cuts = {h.source_ps: h for h in self._handed if h.source == self._number}
        points += [(at_ps, 2, handover) for at_ps, handover in cuts.items()]
        points += [(h.end_ps, 0, h) for h in self._handed if h.thread == self._number]
        return sorted(points, key=lambda point: point[:2])

    def _until(self, at_ps: int, name: str) -> int:
        """Host work up to ``at_ps``; the number of the thread's last task."""
        if at_ps > self._now or self._last < 0:
            end = max(at_ps, self._now)
            work = Measured((end - self._now) / PS_PER_S, Category.HOST, name)
            self._add(name, work, self._now, end)
        return self._last

    def _delay(self, at_ps: int, cause: str) -> None:
        if at_ps > self._now:
            self._add(cause, Delay((at_ps - self._now) / PS_PER_S, cause), self._now, at_ps)

    def _add(self, name: str, work: Work, start_ps: int, end_ps: int, section_ps: int | None = None) -> int:
        section = self._context.section(end_ps if section_ps is None else section_ps)
        self._last = self._builder.task(name, self._stream, work, start_ps, end_ps, section=section)
        self._now = end_ps
        return self._last

    def _launch(self, call: int) -> None:
        """The task that ends where the launched work may start; the rest of the call belongs to the next task."""
        blocked, place = self._context.blocked, self._first_device[call]
        issue = max(blocked.issue_ps(call, place), self._now)
        before = blocked.behind_a_full_queue(call, place)
        if before is not None:
            issue = max(min(int(self._events.end_ps[call]), int(self._context.device.start_ps[place])), self._now)
            self._wait(call, [before], issue)
            self._context.launched[call] = self._last
            return
        self._context.launched[call] = self._until(issue, self._name(call))
        if blocked.waits_for_its_work(call, place, issue):
            self._wait(call, [place], int(self._events.end_ps[call]))

    def _wait(self, call: int, places: Sequence[int], end: int) -> None:
        """A call that waits for device work, and the host work of the call after it, until ``end``, ps."""
        begin = int(self._events.start_ps[call])
        self._until(max(begin, self._now), self._name(call))
        released = max([self._now, *(int(self._context.device.end_ps[p]) for p in places)])
        end = max(end, released)
        name = self._events.name_of(call)
        task = self._add(name, Measured((end - released) / PS_PER_S, Category.HOST, name), released, end, begin)
        self._context.blocking.extend((task, p) for p in places)

    def _waited_for(self, call: int) -> list[int]:
        """Device work that the call waits for: the last of each stream; for stream and event calls, one."""
        events, device, slack = self._events, self._context.device, self._context.slack_ps
        begin, end = int(events.start_ps[call]), int(events.end_ps[call])
        ended = device.ended_within(begin, end + slack)
        given = ended[device.launched_ps[ended] < begin]
        last = {int(device.stream[p]): int(p) for p in given}
        found = sorted(last.values(), key=lambda p: int(device.end_ps[p]))
        one_stream = any(part in events.name_of(call) for part in ("StreamSync", "EventSync"))
        return found[-1:] if one_stream else found

    def _resume(self, handover: Handover) -> None:
        """Go on after a silence: the time since the other thread was done is work of the main thread, else a delay."""
        self._until(handover.begin_ps, "end of its work")
        start = max(self._now, handover.source_ps)
        end = max(handover.end_ps, start)
        seconds = (end - start) / PS_PER_S
        work: Work = Measured(seconds, Category.HOST, WOKEN) if self._number == 0 else Delay(seconds, WOKEN)
        self._resumed.append((self._add(WOKEN, work, start, end), handover))

    def _cut(self, at_ps: int) -> None:
        self._cut_tasks[self._number, at_ps] = self._until(at_ps, "wakes another thread")

    def _name(self, call: int) -> str:
        """The innermost operator around a call, and the call."""
        outer = int(self._context.parent[call])
        while outer >= 0 and self._events.kind[outer] == RUNTIME:
            outer = int(self._context.parent[outer])
        name = self._events.name_of(call)
        return f"{self._events.name_of(outer)[:LONGEST_NAME]}: {name}" if outer >= 0 else name
