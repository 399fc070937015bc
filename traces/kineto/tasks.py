"""Tasks of a rank, made from the events of its Kineto trace.

Host: the work of a thread between two calls that the device notices is one task, which ends where the work of the
second call may start; a call that blocks is a task that waits for device work. Device: work follows its launch, the
work before it on its stream, and the events its stream waits for. The remaining time before its start is a `Delay`. So
every task starts when its last input ends, as in a simulated run, and durations reproduce the trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from inputs.errors import InputError
from simulator.program import IntArray
from traces.collective_args import CollectiveArgs
from traces.imported import TracedLookup
from traces.kineto.blocked_calls import BlockedCalls
from traces.kineto.device_tasks import DeviceTasks
from traces.kineto.device_work import device_work
from traces.kineto.events import EventKind, RankTrace
from traces.kineto.host_threads import Handover, Thread, handovers, host_threads
from traces.kineto.profiler_steps import WHOLE, ProfilerStep, steps_of
from traces.kineto.rank_context import RankContext
from traces.kineto.shapes import tables_and_bags
from traces.kineto.stream_waits import stream_waits, wait_calls
from traces.kineto.thread_walk import ThreadWalk
from traces.rank_tasks import RankTasks, RankTasksBuilder

_SYNCS = frozenset(
    f"{prefix}{name}"
    for prefix in ("cuda", "hip", "cu")
    for name in ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize", "CtxSynchronize")
)


@dataclass(frozen=True, slots=True)
class RankImport:
    """Import of one rank's trace.

    Attributes:
        trace: events that were read.
        tasks: its tasks, times relative to the trace's ``base_ns``.
        steps: the profiler's steps, ascending.
        groups: members of each process group that its collectives use; None where the trace does not say.
        gaps: facts that the trace lacks, with counts.
        overlaps_ps: common time of device work with earlier work of its stream ``[K]``.
        lookups: embedding lookups of the first step that has any.
    """

    trace: RankTrace
    tasks: RankTasks
    steps: tuple[ProfilerStep, ...]
    groups: dict[str, CollectiveArgs]
    gaps: Counter[str]
    overlaps_ps: IntArray
    lookups: tuple[TracedLookup, ...] = ()


def rank_tasks(trace: RankTrace, rank: int, *, whole: bool = False) -> RankImport:
    """The tasks of a rank's trace.

    Args:
        whole: whether the trace is one step and the profiler's steps are ignored.

    Raises:
        InputError: no device work at all, no step, or times that contradict each other; the event is named.
    """
    if not trace.events.on_device.any():
        raise InputError("has no kernels and no copies", file=trace.file, expected="a trace with device activities")
    steps, device = steps_of(trace, whole=whole), device_work(trace)
    threads, parent = host_threads(trace)
    builder = RankTasksBuilder(rank, str(trace.file))
    calls = wait_calls(trace.events)
    waits = stream_waits(trace.events, device, calls)
    blocked = BlockedCalls(trace, device, waits)
    context = RankContext(trace, builder, steps, device, parent, int(trace.events.start_ps.min()), waits, blocked)
    gaps = context.gaps
    gaps["stream waits whose event the trace does not name (edges are inferred)"] = len(calls)
    alone = int(np.count_nonzero(device.launch < 0))
    gaps["device events without the call that launched them (launched before the profile began?)"] = alone
    gaps["traces taken whole, as one step"] = int(whole)
    gaps["device events that start before the call that launched them (clocks differ)"] = device.early
    _host_tasks(context, threads)
    DeviceTasks(context).run()
    lookups = tuple(_lookups(context, rank))
    return RankImport(trace, builder.build(), steps, context.groups, gaps, device.overlaps_ps, lookups)


def _lookups(context: RankContext, rank: int) -> Iterator[TracedLookup]:
    """Lookups of the first step that has any."""
    events = context.trace.events
    first = None
    for row in sorted(events.args):
        found = tables_and_bags(events.name_of(row), events.args[row])
        section = context.section(int(events.start_ps[row])) if found else None
        if found and (first is None or section == first):
            first = section
            yield TracedLookup(rank, *found)


def _host_tasks(context: RankContext, threads: Sequence[Thread]) -> None:
    """Tasks of the threads that launch device work or wait for it; the main thread's first."""
    events = context.trace.events
    first_device: dict[int, int] = {}
    for place, call in enumerate(context.device.launch.tolist()):
        if call >= 0:
            first_device.setdefault(call, place)
    names = np.array([name in _SYNCS for name in events.names])
    syncs = set(np.flatnonzero((events.kind == EventKind.RUNTIME) & names[events.name]).tolist())
    syncs.update(context.blocked.memory_calls().tolist())
    calls = first_device.keys() | syncs
    main = _main_track(context)
    active = [thread for thread in threads if not calls.isdisjoint(thread.rows.tolist())]
    active.sort(key=lambda thread: (thread.track != main, int(thread.top_start_ps[0])))
    handed = handovers(active, context.origin_ps)
    cut_tasks: dict[tuple[int, int], int] = {}
    resumed: list[tuple[int, Handover]] = []
    for number in range(len(active)):
        ThreadWalk(context, active, number, first_device, syncs, handed, cut_tasks, resumed).run()
    for task, handover in resumed:
        context.builder.depend(task, cut_tasks[handover.source, handover.source_ps])
    what = "silences of a host thread explained by another thread's work (edges are inferred)"
    context.gaps[what] = len(resumed)


def _main_track(context: RankContext) -> int:
    """The track of the thread that marks the steps; in a whole trace, the track of the first launch."""
    events = context.trace.events
    if context.steps[0].name == WHOLE:
        launches = context.device.launch[context.device.launch >= 0]
        return int(events.track[launches[np.argmin(events.start_ps[launches])]]) if len(launches) else -1
    step = np.flatnonzero(
        (events.name == events.names.index(context.steps[0].name)) & (events.kind == EventKind.ANNOTATION)
    )
    return int(events.track[step[0]])
