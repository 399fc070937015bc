"""Runtime calls that wait for device work: synchronous copies, launches into full queues, memory calls.

The waiting part of such a call is not host work: on a faster device the call is shorter. A call waits if the device
work that it needs ends during the call.
"""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from simulator.program import IntArray
from traces.kineto.device_work import DeviceWork
from traces.kineto.events import EventKind, RankTrace
from traces.kineto.stream_waits import WAITS

QUEUE_ENTRIES = 1024
"""Commands in a full queue of a stream, where the next launch blocks until one ends (measured:
stackoverflow.com/q/53970187, about 1,000 launches of each stream return at once)."""
LONG_CALL = 4
"""Factor on the usual length above which a launch into a full queue counts as blocked: usual launches vary less."""
_RECORDS = frozenset({"cudaEventRecord", "cudaEventRecordWithFlags", "hipEventRecord", "cuEventRecord"})
_MEMORY_CALLS = re.compile(
    r"(cuda|hip|cu)(Malloc|Free|MemAlloc|MemFree)(Host)?(_v2)?|(cuda|hip)Host(Alloc|Malloc|Free|Register|Unregister)"
)
"""Calls that may wait for all device work before they change the memory map."""


class BlockedCalls:
    """Calls of a rank that wait for device work."""

    def __init__(self, trace: RankTrace, work: DeviceWork, waits: dict[int, list[int]]) -> None:
        """Calls of a trace.

        Args:
            work: device work of the trace.
            waits: pieces of other streams that each piece waits for.
        """
        self._events, self._work, self._waits = trace.events, work, waits
        self._slack_ps = 2 * trace.resolution_ps
        self._usual_ps = self._usual()
        enqueuing = [n for n, name in enumerate(self._events.names) if name in WAITS or name in _RECORDS]
        calls = np.flatnonzero(np.isin(self._events.name, enqueuing) & (self._events.kind == EventKind.RUNTIME))
        launches = work.launch[work.launch >= 0]
        self._enqueued_ps = np.sort(self._events.start_ps[np.unique(np.concatenate([launches, calls]))])

    def _usual(self) -> dict[int, int]:
        """Median length of the launches of each name that do not wait, ps; key -1: of all names."""
        events, work = self._events, self._work
        lengths: dict[int, list[int]] = defaultdict(list)
        known = np.flatnonzero(work.launch >= 0)
        calls = work.launch[known]
        awaited = (events.kind[work.rows[known]] != EventKind.KERNEL) & (
            work.end_ps[known] <= events.end_ps[calls] + self._slack_ps
        )
        for call, waited in zip(calls.tolist(), awaited.tolist(), strict=True):
            if not waited:
                length = int(events.end_ps[call] - events.start_ps[call])
                lengths[int(events.name[call])].append(length)
                lengths[-1].append(length)
        return {name: int(np.median(own)) for name, own in lengths.items()}

    def usual_ps(self, call: int) -> int:
        """Usual length of a launch of the same name, ps; of any name if all launches of the name wait."""
        return self._usual_ps.get(int(self._events.name[call]), self._usual_ps.get(-1, 0))

    def issue_ps(self, call: int, place: int) -> int:
        """End of the host's part of a call that launches device work, ps.

        It is the start of the device work, at most the end of the call. For work that starts during its call because
        earlier work ends only then, it is the length of a usual launch after the start of the call.
        """
        begin, end = int(self._events.start_ps[call]), int(self._events.end_ps[call])
        start, issued = int(self._work.start_ps[place]), begin + self.usual_ps(call)
        if start <= end and issued < self._free_ps(place):
            return issued
        return max(min(end, start), begin)

    def _free_ps(self, place: int) -> int:
        """Latest end of the earlier work on a piece's stream and of the work that this stream waits for, ps."""
        work, start = self._work, int(self._work.start_ps[place])
        ends = [int(work.end_ps[p]) for p in (*self._waits.get(place, ()), int(work.before[place])) if p >= 0]
        return max((end for end in ends if end <= start), default=0)

    def waits_for_its_work(self, call: int, place: int, issue_ps: int) -> bool:
        """Whether a call that launches a copy returns at the end of the copy."""
        if self._events.kind[self._work.rows[place]] == EventKind.KERNEL:
            return False
        return issue_ps < int(self._work.end_ps[place]) <= int(self._events.end_ps[call]) + self._slack_ps

    def behind_a_full_queue(self, call: int, place: int) -> int | None:
        """The work whose end frees an entry of the full queue of a launch; None for other launches."""
        begin, end = int(self._events.start_ps[call]), int(self._events.end_ps[call])
        if end - begin <= LONG_CALL * self.usual_ps(call):
            return None
        work = self._work
        given = (work.stream == work.stream[place]) & (work.launched_ps < begin) & (work.launch >= 0)
        pending = work.launched_ps[given & (work.end_ps > begin)]
        if not len(pending) or self._entries(int(pending.min()), begin) < QUEUE_ENTRIES:
            return None
        ended = np.flatnonzero(given & (work.end_ps > begin) & (work.end_ps <= min(end, int(work.start_ps[place]))))
        return int(ended[np.argmax(work.end_ps[ended])]) if len(ended) else None

    def _entries(self, from_ps: int, to_ps: int) -> int:
        """Number of commands issued to the device in an interval."""
        first, past = np.searchsorted(self._enqueued_ps, (from_ps, to_ps))
        return int(past - first)

    def memory_calls(self) -> IntArray:
        """Calls that change the memory map and wait for the device: the last device work ends during the call."""
        events, work = self._events, self._work
        wanted = [n for n, name in enumerate(events.names) if _MEMORY_CALLS.fullmatch(name)]
        calls = np.flatnonzero(np.isin(events.name, wanted) & (events.kind == EventKind.RUNTIME))
        waited = []
        for call in calls.tolist():
            given = work.end_ps[work.launched_ps < events.start_ps[call]]
            last = int(given.max(initial=0))
            waited.append(int(events.start_ps[call]) < last <= int(events.end_ps[call]) + self._slack_ps)
        found: IntArray = calls[np.array(waited, dtype=bool)]
        return found
