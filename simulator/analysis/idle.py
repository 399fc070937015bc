"""Why a device is idle: the input for which the next work had been waiting.

A device task starts when its last input has ended; where a `Delay` stands before it on its stream, that is what passed
between (launch latency). Idle time up to the end of the last input is put down to that input: to the host where it is
a host task, to other work of the device where it is not; the rest is kernel wait. Idling that no later task ends
belongs to the host, which launched nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.analysis.window import Window
from simulator.categories import Category
from simulator.engine.records import GroupTimes
from simulator.program import IntArray, Program

_DEVICE = (Category.COMPUTE, Category.COMM, Category.COPY)


@dataclass(frozen=True, slots=True)
class IdleCauses:
    """Idle time of a rank in a window by cause, in ps.

    Attributes:
        host_ps: the host had not launched the next work.
        kernel_wait_ps: everything was there, the device had not started (launch latency).
        dependency_ps: time in which the next task waited for work on another stream.
    """

    host_ps: int
    kernel_wait_ps: int
    dependency_ps: int


class IdleAnalysis:
    """Idle causes of one rank, for any window."""

    def __init__(self, program: Program, times: GroupTimes, column: int) -> None:
        """Prepare the rank in ``column`` of a group's times."""
        own = int(times.classes.of_rank[column])
        start, end = times.class_start_ps[:, own], times.class_end_ps[:, own]
        categories = np.array(program.categories)
        device = np.flatnonzero(np.isin(categories, _DEVICE))
        ready, by_host = _ready(program, start, end, categories)
        order = device[np.argsort(start[device], kind="stable")]
        self._starts, self._reach = start[order], np.maximum.accumulate(end[order]) if len(order) else end[order]
        self._ready, self._by_host = ready[order], by_host[order]

    def causes(self, window: Window) -> IdleCauses:
        """Idle time in the window by cause."""
        ends = np.append(self._starts, window.end_ps)
        begins = np.concatenate([[0], self._reach])
        ready = np.append(self._ready, window.end_ps)
        by_host = np.append(self._by_host, True)
        low, high = begins.clip(window.start_ps, window.end_ps), ends.clip(window.start_ps, window.end_ps)
        idle = np.maximum(high - low, 0)
        until_ready = np.clip(ready - low, 0, idle)
        host = int(until_ready[by_host].sum())
        return IdleCauses(host, int((idle - until_ready).sum()), int(until_ready.sum()) - host)


def _ready(
    program: Program, start: IntArray, end: IntArray, categories: NDArray[np.object_]
) -> tuple[IntArray, NDArray[np.bool_]]:
    """End of the last input of each task, and whether that was a host task ``[T]``.

    A task right behind a delay has the delay's inputs.
    """
    latest = np.full(program.task_count, -1, dtype=np.int64)
    by_host = np.zeros(program.task_count, dtype=np.bool_)
    ready = start.copy()
    host = categories == Category.HOST
    entries = np.repeat(np.arange(program.task_count), np.diff(program.dep_ptr))
    now = program.dep_lag == 0
    np.maximum.at(latest, entries[now], end[program.dep_task[now]])
    at_last = now & (end[program.dep_task] == latest[entries])
    np.logical_or.at(by_host, entries[at_last], host[program.dep_task[at_last]])
    last: dict[int, int] = {}
    for task, stream in enumerate(program.stream_of.tolist()):
        before = last.get(stream)
        if before is not None and categories[before] == Category.IDLE and end[before] == start[task]:
            ready[task], by_host[task] = start[before], by_host[before]
        last[stream] = task
    return ready, by_host
