"""Host tasks that launch the kernels of a program, and their cost after a change of the number of launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import HostWork, Marker
from simulator.transform.editable import EditableProgram, EditableTask
from simulator.work import KernelSeries, Work, category_of


def kernels_of(work: Work) -> int:
    """Number of kernels of a task; 0 for waits and collectives."""
    if isinstance(work, KernelSeries):
        return work.launches
    return int(category_of(work) in (Category.COMPUTE, Category.COPY) and not isinstance(work, Marker))


class Launches:
    """The host task that launches each task.

    The task waits for its host task, directly or through collectives; otherwise it shares the host task of the task
    before it on the stream.
    """

    def __init__(self, program: EditableProgram) -> None:
        """Find the host task of every task on an in-order stream, and of other tasks that wait for a host task."""
        self._of: dict[EditableTask, EditableTask] = {}
        self._launched: dict[EditableTask, list[EditableTask]] = {}
        self._known: dict[EditableTask, EditableTask | None] = {}
        for stream, tasks in program.by_stream().items():
            last: EditableTask | None = None
            for task in tasks:
                if isinstance(task.work, HostWork):
                    continue
                last = self._waited_for(task) or (last if program.is_in_order(stream) else None)
                if last is not None:
                    self._of[task] = last
                    self._launched.setdefault(last, []).append(task)

    def _waited_for(self, task: EditableTask) -> EditableTask | None:
        """The host task that a task waits for directly, or through collectives."""
        if task not in self._known:
            waits = [other for other, lag in reversed(task.after) if not lag]
            found = next((other for other in waits if launches(other)), None)
            calls = (self._waited_for(other) for other in waits if isinstance(other.work, CollectiveCall))
            behind = (host for host in calls if isinstance(host, EditableTask) and launches_kernels(host))
            self._known[task] = found or next(behind, None)
        return self._known[task]

    def of(self, task: EditableTask) -> EditableTask | None:
        """The host task that launches a task; None: no task launches it."""
        return self._of.get(task)

    def launched(self, host: EditableTask) -> Sequence[EditableTask]:
        """The tasks that a host task launches."""
        return self._launched.get(host, ())

    def counts(self, host: EditableTask) -> bool:
        """Whether a host task has a launch for each kernel; false for one launch of a whole CUDA graph."""
        return isinstance(host.work, HostWork) and host.work.launches >= sum(
            kernels_of(task.work) for task in self.launched(host)
        )


def launches(task: EditableTask) -> bool:
    """Whether a task launches kernels or collectives."""
    return isinstance(task.work, HostWork) and task.work.launches > 0


def launches_kernels(task: EditableTask) -> bool:
    """Whether a task launches kernels and no collective."""
    return isinstance(task.work, HostWork) and task.work.launches > 0 and not task.work.collectives


def with_launches(work: HostWork, number: float, collectives: float = 0.0) -> HostWork:
    """Host work with another number of launches, each as long as before, and with further collectives."""
    return replace(
        work,
        launches=number,
        seconds=work.seconds * number / work.launches,
        collectives=work.collectives + collectives,
        copied_bytes=work.copied_bytes * (1.0 + collectives / work.collectives) if work.collectives else 0.0,
    )
