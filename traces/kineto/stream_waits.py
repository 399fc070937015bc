"""Device work that a stream waits for on other streams, from the host's ``StreamWaitEvent`` calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.program import IntArray
from traces.kineto.device_work import DeviceWork
from traces.kineto.events import EventKind, Events

WAITS = frozenset({"cudaStreamWaitEvent", "hipStreamWaitEvent", "cuStreamWaitEvent"})
"""Calls that let a stream wait for an event."""


@dataclass(frozen=True, slots=True)
class _Launches:
    """Pieces of device work in the order of their launches."""

    places: IntArray
    launched_ps: IntArray

    @classmethod
    def of(cls, work: DeviceWork, places: IntArray) -> _Launches:
        """Launches of the given pieces, which are in order."""
        return cls(places, work.launched_ps[places])

    def first_after(self, at_ps: int) -> int | None:
        """The first piece launched after a time."""
        count = int(np.searchsorted(self.launched_ps, at_ps, side="right"))
        return int(self.places[count]) if count < len(self.places) else None

    def last_until(self, at_ps: int) -> int | None:
        """The last piece launched until a time."""
        count = int(np.searchsorted(self.launched_ps, at_ps, side="right"))
        return int(self.places[count - 1]) if count else None


def wait_calls(events: Events) -> IntArray:
    """Event numbers of the calls that let a stream wait."""
    wanted = [n for n, name in enumerate(events.names) if name in WAITS]
    found: IntArray = np.flatnonzero(np.isin(events.name, wanted) & (events.kind == EventKind.RUNTIME))
    return found


def stream_waits(events: Events, work: DeviceWork, calls: IntArray) -> dict[int, list[int]]:
    """Device work -> the work of other streams that its stream waits for, from calls before its launch.

    Kineto names neither the event nor the stream of a wait. The awaited work is, of all pieces that were launched on
    other streams before the call, the last one to end before the waiting work starts.

    Args:
        calls: event numbers, see `wait_calls`.
    """
    order = np.argsort(work.launched_ps, kind="stable")
    launched_on = np.where(work.launch[order] >= 0, events.track[work.launch[order]], -1)
    by_thread = {track: _Launches.of(work, order[launched_on == track]) for track in np.unique(launched_on).tolist()}
    by_stream = [_Launches.of(work, order[work.stream[order] == s]) for s in range(len(work.streams))]
    found: dict[int, list[int]] = {}
    for call in calls.tolist():
        at_ps, thread = int(events.start_ps[call]), int(events.track[call])
        waiting = by_thread[thread].first_after(at_ps) if thread in by_thread else None
        best = None if waiting is None else _best_source(work, by_stream, at_ps, waiting)
        if waiting is not None and best is not None:
            found.setdefault(waiting, []).append(best)
    return found


def _best_source(work: DeviceWork, by_stream: Sequence[_Launches], at_ps: int, waiting: int) -> int | None:
    best: int | None = None
    for stream, launches in enumerate(by_stream):
        place = launches.last_until(at_ps) if stream != work.stream[waiting] else None
        if place is None or work.end_ps[place] > work.start_ps[waiting]:
            continue
        if best is None or work.end_ps[place] > work.end_ps[best]:
            best = place
    return best
