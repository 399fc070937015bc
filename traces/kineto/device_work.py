"""Device work of a trace: in order on each stream, each with the call that launched it, checked against the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from inputs.errors import InputError
from simulator.program import IntArray
from traces.kineto.events import EventKind, RankTrace

CLOCK_JUMP_PS = 1_000_000_000
"""1 ms. CUPTI aligns the device's clock with the host's to microseconds; work that starts this much before the call
that launched it was stamped by a clock that went back."""


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """D events of the device by start.

    Attributes:
        rows: event numbers ``[D]``.
        stream: index into ``streams`` ``[D]``.
        launch: event number of the launching call, -1 for none ``[D]``.
        start_ps: start, at least the end of the earlier work on the stream ``[D]``. Kernels of a stream overlap with
            programmatic dependent launch, where the next kernel starts before all blocks of the last one end, or with a
            coarse clock. The common time belongs to the earlier kernel.
        end_ps: end, not before the start ``[D]``.
        streams: (device, stream) of each index.
        before: the piece before it on its stream, -1 for none ``[D]``.
        early: number of pieces that start before their launching call does.
        overlaps_ps: common time of each piece with earlier work of its stream, if above the clock's resolution ``[K]``.
        launched_ps: when each was launched, before everything where no call is known ``[D]``.
        by_end: places by end ``[D]``.
        sorted_end_ps: ends in that order ``[D]``.
    """

    rows: IntArray
    stream: IntArray
    launch: IntArray
    start_ps: IntArray
    end_ps: IntArray
    streams: tuple[tuple[Any, Any], ...]
    before: IntArray
    early: int
    overlaps_ps: IntArray
    launched_ps: IntArray
    by_end: IntArray
    sorted_end_ps: IntArray

    def ended_within(self, begin_ps: int, end_ps: int) -> IntArray:
        """Places of work that ended after ``begin_ps`` and until ``end_ps``, ascending."""
        first, past = np.searchsorted(self.sorted_end_ps, (begin_ps, end_ps), side="right")
        found: IntArray = np.sort(self.by_end[first:past])
        return found


def device_work(trace: RankTrace) -> DeviceWork:
    """The device work of a trace.

    Raises:
        InputError: work starts far before or in another order than it was launched.
    """
    events = trace.events
    rows = np.flatnonzero(events.on_device)
    rows = rows[np.lexsort((events.end_ps[rows], events.start_ps[rows]))]
    tracks, stream = np.unique(events.track[rows], return_inverse=True)
    launch = _launches(trace, rows)
    start, end = events.start_ps[rows].copy(), events.end_ps[rows].copy()
    before = np.full(len(rows), -1, dtype=np.int64)
    overlaps: list[IntArray] = []
    for number in range(len(tracks)):
        places = np.flatnonzero(stream == number)
        before[places[1:]] = places[:-1]
        _check_order(trace, rows[places], launch[places])
        free = np.concatenate([[start[places[0]]], np.maximum.accumulate(end[places])[:-1]])
        overlaps.append((np.minimum(free, end[places]) - start[places])[1:])
        start[places] = np.maximum(start[places], free)
    end = np.maximum(start, end)
    shared = np.concatenate(overlaps)
    early = _check_clock(trace, rows, launch)
    streams = tuple(events.tracks[t] for t in tracks)
    launched_ps = np.where(launch >= 0, events.start_ps[launch], np.iinfo(np.int64).min)
    by_end = np.argsort(end, kind="stable")
    shared = shared[shared > 2 * trace.resolution_ps]
    return DeviceWork(
        rows, stream, launch, start, end, streams, before, early, shared, launched_ps, by_end, end[by_end]
    )


def launching_calls(trace: RankTrace) -> set[int]:
    """Event numbers of the runtime calls that launched device work."""
    found = _launches(trace, np.flatnonzero(trace.events.on_device))
    return set(found[found >= 0].tolist())


def _launches(trace: RankTrace, rows: IntArray) -> IntArray:
    """The runtime call with the same correlation, -1 for none ``[D]``."""
    events = trace.events
    calls = np.flatnonzero((events.kind == EventKind.RUNTIME) & (events.correlation >= 0))
    if not len(calls):
        return np.full(len(rows), -1, dtype=np.int64)
    calls = calls[np.argsort(events.correlation[calls], kind="stable")]
    known = events.correlation[calls]
    place = np.searchsorted(known, events.correlation[rows]).clip(max=len(calls) - 1)
    return np.where(known[place] == events.correlation[rows], calls[place], -1)


def _check_order(trace: RankTrace, rows: IntArray, launch: IntArray) -> None:
    """Work of a stream starts in the order it was launched; launches of two threads may overlap, these say nothing."""
    events = trace.events
    rows, launch = rows[launch >= 0], launch[launch >= 0]
    if not len(rows):
        return
    latest = np.maximum.accumulate(events.start_ps[launch])
    wrong = np.flatnonzero(events.end_ps[launch[1:]] + 2 * trace.resolution_ps < latest[:-1])
    if len(wrong):
        later = rows[wrong[0] + 1]
        earlier = rows[int(np.argmax(events.start_ps[launch[: wrong[0] + 1]]))]
        raise InputError(
            f"{_two(trace, earlier, later)} ran in this order but were launched in the other: the clock went back",
            file=trace.file,
            expected="work of a stream in the order of its launches",
        )


def _check_clock(trace: RankTrace, rows: IntArray, launch: IntArray) -> int:
    """Number of pieces that start before the call that launched them."""
    events = trace.events
    known = np.flatnonzero(launch >= 0)
    before_ps = events.start_ps[launch[known]] - events.start_ps[rows[known]]
    jumps = known[before_ps > CLOCK_JUMP_PS]
    if len(jumps):
        row, call = rows[jumps[0]], launch[jumps[0]]
        raise InputError(
            f"{_two(trace, row, call)}: the work starts {int(before_ps.max()) // CLOCK_JUMP_PS} ms before the call "
            "that launched it; the clock went back",
            file=trace.file,
            expected="calls before the work that they launch",
        )
    return int(np.count_nonzero(before_ps > 2 * trace.resolution_ps))


def _two(trace: RankTrace, one: int, two: int) -> str:
    events = trace.events
    words = (f"event {events.number[row]} ({events.name_of(int(row))[:60]!r})" for row in (one, two))
    return " and ".join(words)
