"""Host threads of a trace: nesting of events, silences of a thread, and the threads that end them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inputs.errors import InputError
from simulator.program import IntArray
from traces.kineto.events import EventKind, RankTrace


@dataclass(frozen=True, slots=True)
class Thread:
    """One host thread.

    Attributes:
        track: number of its track.
        rows: its events by start, outer before inner ``[N]``.
        top_start_ps: starts of its outermost operators and runtime calls (annotations left out) ``[M]``.
        top_end_ps: their ends ``[M]``.
    """

    track: int
    rows: IntArray
    top_start_ps: IntArray
    top_end_ps: IntArray


def host_threads(trace: RankTrace) -> tuple[list[Thread], IntArray]:
    """The host threads and the event each event stands in (row, -1 for none) ``[N]``.

    Raises:
        InputError: two events of a thread overlap without one being inside the other.
    """
    events = trace.events
    parent = np.full(len(events), -1, dtype=np.int64)
    on_host = np.flatnonzero(~events.on_device)
    order = on_host[np.lexsort((-events.end_ps[on_host], events.start_ps[on_host], events.track[on_host]))]
    bounds = np.flatnonzero(np.diff(events.track[order], prepend=-1))
    threads = []
    for begin, end in zip(bounds, [*bounds[1:], len(order)], strict=True):
        rows = order[begin:end]
        _nest(trace, rows, parent)
        threads.append(Thread(int(events.track[rows[0]]), rows, *_outermost(trace, rows)))
    return threads, parent


def _outermost(trace: RankTrace, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Starts and ends of the stretches in which a thread is inside an operator or a runtime call."""
    events = trace.events
    working = rows[events.kind[rows] != EventKind.ANNOTATION]
    ends = np.maximum.accumulate(events.end_ps[working])
    first = np.flatnonzero(events.start_ps[working] >= np.concatenate([[np.iinfo(np.int64).min], ends[:-1]]))
    return events.start_ps[working][first], ends[np.append(first[1:], len(working)) - 1] if len(working) else ends


def _nest(trace: RankTrace, rows: IntArray, parent: IntArray) -> None:
    """Fill in the parents of one thread's events."""
    events, slack = trace.events, 2 * trace.resolution_ps
    starts, ends = events.start_ps[rows].tolist(), events.end_ps[rows].tolist()
    stack: list[tuple[int, int]] = []
    parents = []
    for row, start, end in zip(rows.tolist(), starts, ends, strict=True):
        while stack and stack[-1][0] <= start:
            stack.pop()
        while stack and end > stack[-1][0]:
            if end > stack[-1][0] + slack and start + slack < stack[-1][0]:
                raise _overlap(trace, stack[-1][1], row)
            stack.pop()
        parents.append(stack[-1][1] if stack else -1)
        stack.append((end, row))
    parent[rows] = parents


def _overlap(trace: RankTrace, one: int, two: int) -> InputError:
    events = trace.events
    thread = events.tracks[int(events.track[one])][1]
    return InputError(
        f"events {events.number[one]} ({events.name_of(one)[:60]!r}) and {events.number[two]} "
        f"({events.name_of(two)[:60]!r}) of thread {thread} overlap without one being inside the other",
        file=trace.file,
        expected="events of one track that nest",
    )


@dataclass(frozen=True, slots=True)
class Handover:
    """A thread that was silent until another had done its work.

    Attributes:
        thread: index of the silent one.
        begin_ps: when it fell silent.
        end_ps: when it went on.
        source: index of the thread it waited for.
        source_ps: end of that thread's last event before.
    """

    thread: int
    begin_ps: int
    end_ps: int
    source: int
    source_ps: int


def handovers(threads: list[Thread], origin_ps: int) -> list[Handover]:
    """Silences that another thread explains: it ended an event in the second half of the silence and then fell silent.

    A trace has no events for locks and queues between threads (the autograd engine's thread, say), but it shows the
    thread that worked while another was silent.

    Args:
        threads: the threads that launch or wait for device work.
        origin_ps: begin of the rank's trace.
    """
    found: dict[tuple[int, int], Handover] = {}
    for waiting, thread in enumerate(threads):
        begins = np.concatenate([[origin_ps], thread.top_end_ps[:-1]])
        ends = thread.top_start_ps
        for source, other in enumerate(threads):
            if source == waiting:
                continue
            last = np.searchsorted(other.top_end_ps, ends, side="right") - 1
            source_ps = np.where(last >= 0, other.top_end_ps[last], np.iinfo(np.int64).min // 4)
            following = np.append(other.top_start_ps, np.iinfo(np.int64).max)[last + 1]
            matches = (source_ps > begins) & (2 * (ends - source_ps) < ends - begins) & (following >= ends)
            for gap in np.flatnonzero(matches).tolist():
                handover = Handover(waiting, int(begins[gap]), int(ends[gap]), source, int(source_ps[gap]))
                best = found.get((waiting, gap))
                if best is None or handover.source_ps > best.source_ps:
                    found[waiting, gap] = handover
    return list(found.values())
