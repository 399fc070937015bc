"""From the events of a Kineto trace to the tasks of its rank.

Host: what a thread does between two calls that the device notices is one task, which ends where the work of the second
call may start; a call that blocks is a task that waits for device work. Device: work follows its launch, the work
before it on its stream, and what its stream was told to wait for. Whatever then still passes before it starts is a
`Delay`. So every task starts when its last input ends, as in a simulated run, and durations reproduce the trace.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from inputs.errors import InputError
from simulator.operators import Category, CollectiveCall, Copy, Delay, Measured, Work
from simulator.program import IntArray
from traces.collective_args import CollectiveArgs, is_collective_kernel, read_args
from traces.device_work import DeviceWork, device_work
from traces.events import Kind, RankTrace
from traces.host_threads import Handover, Thread, handovers, host_threads
from traces.rank_tasks import RankTasks, RankTasksBuilder

PS_PER_S = 1e12
_SYNCS = frozenset(
    f"{prefix}{name}"
    for prefix in ("cuda", "hip", "cu")
    for name in ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize", "CtxSynchronize")
)
_WAITS = frozenset({"cudaStreamWaitEvent", "hipStreamWaitEvent", "cuStreamWaitEvent"})
_STEP = re.compile(r"ProfilerStep#?\s*(\d+)")
_DIRECTIONS = {"htod": "h2d", "dtoh": "d2h"}
OUTSIDE = "outside the profiler's steps"
_RUNTIME, _KERNEL, _MEMCPY = int(Kind.RUNTIME), int(Kind.KERNEL), int(Kind.MEMCPY)
LONGEST_NAME = 80
"""Characters of a kernel's signature that name its task; `Measured.name` has it whole."""


@dataclass(frozen=True, slots=True)
class Step:
    """One ``ProfilerStep#k`` of a rank."""

    number: int
    name: str
    start_ps: int
    end_ps: int


@dataclass(frozen=True, slots=True)
class RankImport:
    """What became of one rank's trace.

    Attributes:
        trace: what was read.
        tasks: its tasks, times relative to the trace's ``base_ns``.
        steps: the profiler's steps, ascending.
        groups: members of each process group that its collectives use; None where the trace does not say.
        gaps: what could not be told, with how often.
    """

    trace: RankTrace
    tasks: RankTasks
    steps: tuple[Step, ...]
    groups: dict[str, CollectiveArgs]
    gaps: Counter[str]


def rank_tasks(trace: RankTrace, rank: int) -> RankImport:
    """The tasks of a rank's trace.

    Raises:
        InputError: no device work at all, no step, or times that contradict each other; the event is named.
    """
    if not trace.events.on_device.any():
        raise InputError("has no kernels and no copies", file=trace.file, expected="a trace with device activities")
    return _Importer(trace, rank).run()


def steps_of(trace: RankTrace) -> tuple[Step, ...]:
    """The profiler's steps in order.

    Raises:
        InputError: there is none, or they go back in time.
    """
    events, found = trace.events, {}
    for name_number, name in enumerate(events.names):
        match = _STEP.fullmatch(name)
        for row in np.flatnonzero((events.name == name_number) & (events.kind == Kind.ANNOTATION)) if match else ():
            found[int(match[1])] = Step(int(match[1]), name, int(events.start_ps[row]), int(events.end_ps[row]))
    steps = tuple(found[number] for number in sorted(found))
    if not steps:
        raise InputError(
            "has no ProfilerStep#k annotation, so nothing says where an iteration begins",
            file=trace.file,
            expected="a trace of torch.profiler with a schedule and prof.step()",
        )
    for one, two in zip(steps, steps[1:], strict=False):
        if two.start_ps + 2 * trace.resolution_ps < one.end_ps:
            raise InputError(f"{two.name} starts before {one.name} has ended: the clock went back", file=trace.file)
    return steps


@dataclass(slots=True)
class _Importer:
    """Builds the tasks of one rank."""

    trace: RankTrace
    rank: int
    gaps: Counter[str] = field(default_factory=Counter)
    groups: dict[str, CollectiveArgs] = field(default_factory=dict)
    builder: RankTasksBuilder = field(init=False)
    steps: tuple[Step, ...] = field(init=False)
    device: DeviceWork = field(init=False)
    parent: IntArray = field(init=False)
    threads: list[Thread] = field(init=False)
    origin_ps: int = field(init=False)
    _edges: np.ndarray[tuple[int], np.dtype[np.int64]] = field(init=False)
    _launched: dict[int, int] = field(default_factory=dict)
    _blocking: list[tuple[int, int]] = field(default_factory=list)
    _issue_ps: dict[int, int] = field(default_factory=dict)

    def run(self) -> RankImport:
        trace = self.trace
        self.builder = RankTasksBuilder(self.rank, str(trace.file))
        self.steps = steps_of(trace)
        self._edges = np.array([s.start_ps for s in self.steps] + [self.steps[-1].end_ps], dtype=np.int64)
        self.device = device_work(trace)
        threads, self.parent = host_threads(trace)
        self.origin_ps = int(trace.events.start_ps.min())
        self._note_gaps()
        self._host(threads)
        self._device()
        return RankImport(trace, self.builder.build(), self.steps, self.groups, self.gaps)

    def _note_gaps(self) -> None:
        alone = int(np.count_nonzero(self.device.launch < 0))
        self.gaps["device events without the call that launched them (launched before the profile began?)"] = alone
        self.gaps["device events that start before the call that launched them (clocks differ)"] = self.device.early

    def _section(self, at_ps: int) -> str:
        place = int(np.searchsorted(self._edges, at_ps, side="right")) - 1
        return self.steps[place].name if 0 <= place < len(self.steps) else OUTSIDE

    # Host

    def _host(self, threads: list[Thread]) -> None:
        """Tasks of the threads that launch device work or wait for it; the main thread's first."""
        events = self.trace.events
        first_device: dict[int, int] = {}
        for place, call in enumerate(self.device.launch.tolist()):
            if call >= 0:
                first_device.setdefault(call, place)
        names = np.array([name in _SYNCS for name in events.names] or [False])
        syncs = set(np.flatnonzero((events.kind == Kind.RUNTIME) & names[events.name]).tolist())
        calls = first_device.keys() | syncs
        active = [thread for thread in threads if not calls.isdisjoint(thread.rows.tolist())]
        main = self._main_track()
        self.threads = sorted(active, key=lambda t: (t.track != main, int(t.top_start_ps[0])))
        handed = handovers(self.threads, self.origin_ps)
        cut_tasks: dict[tuple[int, int], int] = {}
        resumed: list[tuple[int, Handover]] = []
        for number in range(len(self.threads)):
            _ThreadWalk(self, number, first_device, syncs, handed, cut_tasks, resumed).run()
        for task, handover in resumed:
            self.builder.depend(task, cut_tasks[handover.source, handover.source_ps])
        found = len(resumed)
        self.gaps["silences of a host thread explained by another thread's work (edges are inferred)"] = found

    def _main_track(self) -> int:
        events = self.trace.events
        step = np.flatnonzero(events.name == events.names.index(self.steps[0].name))
        return int(events.track[step[0]])

    # Device

    def _device(self) -> None:
        work, builder = self.device, self.builder
        streams = [builder.stream(f"stream {name}" if len({d for d, _ in work.streams}) == 1 else f"device {device} stream {name}") for device, name in work.streams]
        waits = self._waits()
        last: dict[int, int] = {}
        ends: list[int] = []
        tasks: list[int] = []
        for place in range(len(work.rows)):
            stream = int(work.stream[place])
            start, end = int(work.start_ps[place]), int(work.end_ps[place])
            inputs = []
            known = self.origin_ps
            launch = self._launched.get(int(work.launch[place]))
            if launch is not None:
                inputs.append(launch)
                known = max(known, builder.end_ps[launch])
            if stream in last:
                known = max(known, ends[last[stream]])
            for other in waits.get(place, ()):
                if ends[other] <= start:
                    inputs.append(tasks[other])
                    known = max(known, ends[other])
            section = self._section(builder.end_ps[launch] if launch is not None else start)
            name, what = self._work(place)
            if start > known:
                cause = "launch latency" if launch is not None else "launched before the trace"
                inputs = [builder.task(f"{cause}", streams[stream], Delay((start - known) / PS_PER_S, cause), known, start, section=section, after=inputs)]
            task = builder.task(name, streams[stream], what, start, end, section=section, after=inputs)
            if isinstance(what, CollectiveCall):
                task = builder.task(f"{name} (tail)", streams[stream], Measured(0.0, Category.COMM, "end of a collective"), end, end, section=section, after=[task])
            tasks.append(task)
            ends.append(end)
            last[stream] = place
        for host, place in self._blocking:
            builder.depend(host, tasks[place])

    def _waits(self) -> dict[int, list[int]]:
        """Device work -> the work of other streams that its stream was told to wait for before it was launched.

        Kineto names neither the event nor the stream of a wait: taken is, of what other streams had been given before
        the call, the one that ended last before the waiting work started.
        """
        events, work = self.trace.events, self.device
        wanted = [n for n, name in enumerate(events.names) if name in _WAITS]
        calls = np.flatnonzero(np.isin(events.name, wanted) & (events.kind == Kind.RUNTIME))
        if not len(calls):
            return {}
        launch_ps = np.where(work.launch >= 0, events.start_ps[work.launch], np.iinfo(np.int64).min)
        order = np.argsort(launch_ps, kind="stable")
        found: dict[int, list[int]] = {}
        by_stream = [order[work.stream[order] == s] for s in range(len(work.streams))]
        for call in calls.tolist():
            at_ps, thread = int(events.start_ps[call]), events.track[call]
            later = order[np.searchsorted(launch_ps[order], at_ps, side="right"):]
            waiting = next((int(p) for p in later if events.track[work.launch[p]] == thread), None)
            if waiting is None:
                continue
            best = self._best_source(by_stream, launch_ps, at_ps, waiting)
            if best is not None:
                found.setdefault(waiting, []).append(best)
        self.gaps["stream waits whose event the trace does not name (edges are inferred)"] = len(calls)
        return found

    def _best_source(self, by_stream: Sequence[IntArray], launch_ps: IntArray, at_ps: int, waiting: int) -> int | None:
        work, best = self.device, None
        for stream, places in enumerate(by_stream):
            count = int(np.searchsorted(launch_ps[places], at_ps, side="right"))
            if stream == work.stream[waiting] or not count:
                continue
            place = int(places[count - 1])
            if work.end_ps[place] <= work.start_ps[waiting] and (best is None or work.end_ps[place] > work.end_ps[best]):
                best = place
        return best

    def _work(self, place: int) -> tuple[str, Work]:
        """Name and work of a device event."""
        events, row = self.trace.events, int(self.device.rows[place])
        name = events.name_of(row)
        seconds = float(self.device.end_ps[place] - self.device.start_ps[place]) / PS_PER_S
        if events.kind[row] == _KERNEL:
            if is_collective_kernel(name):
                return self._collective(place, name, seconds)
            return short_name(name), Measured(seconds, Category.COMPUTE, name)
        if events.kind[row] == _MEMCPY:
            size = events.args.get(row, {}).get("bytes")
            direction = next((d for key, d in _DIRECTIONS.items() if key in name.lower()), "d2d")
            if isinstance(size, int | float):
                return short_name(name), Copy(float(size), direction)  # type: ignore[arg-type]
        return short_name(name), Measured(seconds, Category.COPY, name)

    def _collective(self, place: int, name: str, seconds: float) -> tuple[str, Work]:
        found = self._collective_args(place, name)
        if found is None:
            self.gaps["communication kernels that are no collective we know (kept with their measured time)"] += 1
            return short_name(name), Measured(seconds, Category.COMM, name)
        if found.bytes is None:
            self.gaps["collectives whose size the trace does not say"] += 1
        group = self.groups.setdefault(found.group, found)
        if group.ranks is None and group.size is None:
            self.gaps["collectives whose process group the trace does not name (taken for all ranks)"] += 1
        size: float | np.ndarray[tuple[int], np.dtype[np.float64]] = found.bytes or 0.0
        if found.uneven:
            size = np.array([found.bytes or 0.0])
        return found.op, CollectiveCall(found.op, found.group, size, found.dtype)

    def _collective_args(self, place: int, name: str) -> CollectiveArgs | None:
        """From the kernel's own arguments, or the innermost operator around its launch that has any."""
        trace, row = self.trace, int(self.device.rows[place])
        args = trace.events.args.get(row)
        outer = int(self.device.launch[place])
        best: dict[str, object] = dict(args or {})
        while outer >= 0:
            for key, value in trace.events.args.get(outer, {}).items():
                best.setdefault(key, value)
            if trace.events.args.get(outer) and "collective" not in best:
                said = trace.events.name_of(outer)
                if said.startswith("nccl:"):
                    best["collective"] = said
            outer = int(self.parent[outer])
        return read_args(name, best, trace.groups, trace.world_size)


class _ThreadWalk:
    """Cuts one host thread into tasks."""

    def __init__(
        self,
        importer: _Importer,
        number: int,
        first_device: dict[int, int],
        syncs: set[int],
        handed: Sequence[Handover],
        cut_tasks: dict[tuple[int, int], int],
        resumed: list[tuple[int, Handover]],
    ) -> None:
        self._importer, self._thread, self._number = importer, importer.threads[number], number
        self._first_device, self._syncs = first_device, syncs
        self._handed, self._cut_tasks, self._resumed = handed, cut_tasks, resumed
        self._events, self._builder = importer.trace.events, importer.builder
        self._stream = self._builder.stream("host" if number == 0 else f"host thread {number + 1}")
        self._now = importer.origin_ps
        self._last = -1

    def run(self) -> None:
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
                self._sync(what, None)
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
        section = self._importer._section(end_ps if section_ps is None else section_ps)
        self._last = self._builder.task(name, self._stream, work, start_ps, end_ps, section=section)
        self._now = end_ps
        return self._last

    def _launch(self, call: int) -> None:
        """The task that ends where the launched work may start; the rest of the call belongs to what follows."""
        device, events = self._importer.device, self._events
        place = self._first_device[call]
        begin, end = int(events.start_ps[call]), int(events.end_ps[call])
        issue = max(min(end, int(device.start_ps[place])), begin, self._now)
        self._importer._launched[call] = self._until(issue, self._name(call))
        done = int(device.end_ps[place])
        if events.kind[device.rows[place]] != _KERNEL and issue < done <= end + 2 * self._importer.trace.resolution_ps:
            self._sync(call, place)

    def _sync(self, call: int, place: int | None) -> None:
        """A call that returns when device work is done."""
        events, device = self._events, self._importer.device
        begin, end = int(events.start_ps[call]), int(events.end_ps[call])
        self._until(max(begin, self._now), self._name(call))
        waited = [place] if place is not None else self._waited_for(call)
        released = max([self._now, *(int(device.end_ps[p]) for p in waited)])
        end = max(end, released)
        name = self._events.name_of(call)
        task = self._add(name, Measured((end - released) / PS_PER_S, Category.HOST, name), released, end, begin)
        self._importer._blocking.extend((task, p) for p in waited)

    def _waited_for(self, call: int) -> list[int]:
        """Device work the call waits for: of each stream (or, of one stream, the latest) the last launched before it."""
        events, device, slack = self._events, self._importer.device, 2 * self._importer.trace.resolution_ps
        begin, end = int(events.start_ps[call]), int(events.end_ps[call])
        launched_ps = np.where(device.launch >= 0, events.start_ps[device.launch], np.iinfo(np.int64).min)
        given = np.flatnonzero((launched_ps < begin) & (device.end_ps > begin) & (device.end_ps <= end + slack))
        last = {int(device.stream[p]): int(p) for p in given}
        whole_device = "Device" in events.name_of(call) or "Ctx" in events.name_of(call)
        found = sorted(last.values(), key=lambda p: int(device.end_ps[p]))
        return found if whole_device else found[-1:]

    def _resume(self, handover: Handover) -> None:
        """Go on after a silence: the time since the other thread was done is work of the main thread, else a delay."""
        self._until(handover.begin_ps, "end of its work")
        start = max(self._now, handover.source_ps)
        end = max(handover.end_ps, start)
        name = "goes on after another thread"
        seconds = (end - start) / PS_PER_S
        work: Work = Measured(seconds, Category.HOST, name) if self._number == 0 else Delay(seconds, name)
        self._resumed.append((self._add(name, work, start, end), handover))

    def _cut(self, at_ps: int) -> None:
        self._cut_tasks[self._number, at_ps] = self._until(at_ps, "wakes another thread")

    def _name(self, call: int) -> str:
        """The innermost operator around a call, and the call."""
        outer = int(self._importer.parent[call])
        while outer >= 0 and self._events.kind[outer] == _RUNTIME:
            outer = int(self._importer.parent[outer])
        name = self._events.name_of(call)
        return f"{self._events.name_of(outer)[:LONGEST_NAME]}: {name}" if outer >= 0 else name


@cache
def short_name(signature: str) -> str:
    """A kernel's signature without return type and arguments, at most `LONGEST_NAME` characters."""
    name = signature.removeprefix("void ")
    depth, end = 0, len(name)
    for place, char in enumerate(name):
        depth += {"<": 1, ">": -1}.get(char, 0)
        if char == "(" and depth <= 0 and place and not name.startswith("Mem"):
            end = place
            break
    return name[:end][:LONGEST_NAME]
