"""Host overheads in a Kineto trace: the parts of each operator that launches device work.

Operators are the outermost of each thread that launches work: the main thread and that of autograd. The hooks of
optimizers, which are annotations, count as operators. A call that waits for the device (``cudaStreamSynchronize``) is
no overhead: its time is left out of the part around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from inputs.errors import InputError
from simulator.program import IntArray
from traces.kineto.device_work import launching_calls
from traces.kineto.events import EventKind, RankTrace, ranks_in
from traces.kineto.host_threads import Thread, host_threads
from traces.kineto.reader import read_kineto

PS_PER_S = 1e12
HOOKS = ("Optimizer.step", "Optimizer.zero_grad")
"""Annotations that count as operators."""


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A call of an operator that launches device work; times in seconds.

    Attributes:
        name: name in the trace.
        t1: since the operator before that launched work on this thread; None for the first one, and where the host
            waited for the device in between, or another thread worked.
        t2: from its begin to the first launch.
        t3: from the end of the last launch to its end.
        t5: between two launches, one less than there are launches.
        calls: name and duration of each launch.
    """

    name: str
    t1: float | None
    t2: float
    t3: float
    t5: tuple[float, ...]
    calls: tuple[tuple[str, float], ...]


def operator_calls(file: Path) -> list[OperatorCall]:
    """The calls of operators that launch device work, of all ranks in a file.

    Raises:
        InputError: no such trace, or one without operators, device work or launches of it.
    """
    return [call for trace in ranks_in(read_kineto(file)) for call in _of_rank(trace)]


def _of_rank(trace: RankTrace) -> list[OperatorCall]:
    events = trace.events
    if not events.on_device.any():
        raise _lacks(trace, "no work of a device", "a trace of GPUs: ProfilerActivity.CUDA")
    if not (events.kind == EventKind.OPERATOR).any():
        raise _lacks(trace, "no operators", "a trace of operators: ProfilerActivity.CPU")
    launches = launching_calls(trace)
    threads, parent = host_threads(trace)
    walks = [_Walk(trace, parent.tolist(), launches, thread) for thread in threads]
    starts = [np.sort(events.start_ps[list(walk.operators)]) for walk in walks]
    found: list[OperatorCall] = []
    for number, walk in enumerate(walks):
        found += walk.calls(np.sort(np.concatenate([*starts[:number], *starts[number + 1 :], starts[number][:0]])))
    if not found:
        raise _lacks(trace, "no operator launches work of the device", "runtime calls inside operators, by correlation")
    return found


class _Walk:
    """The operators of one thread, in their order."""

    def __init__(self, trace: RankTrace, parent: Sequence[int], launches: set[int], thread: Thread) -> None:
        self._events, self._parent = trace.events, parent
        self._rows = thread.rows.tolist()
        calls = [row for row in self._rows if self._events.kind[row] == EventKind.RUNTIME]
        self._waits = [row for row in calls if "Synchronize" in self._events.name_of(row)]

        self.operators: dict[int, list[int]] = {}
        for row in self._rows:
            if row in launches and (operator := self._operator(row)) is not None:
                self.operators.setdefault(operator, []).append(row)

    def calls(self, others_ps: IntArray) -> Iterator[OperatorCall]:
        """All of them; ``others_ps``: starts of operators of other threads, sorted."""
        start, end = self._events.start_ps, self._events.end_ps
        before: int | None = None
        for operator, launched in sorted(self.operators.items(), key=lambda found: int(start[found[0]])):
            if before is not None:
                first, past = np.searchsorted(others_ps, [end[before], start[operator]])
                before = None if past > first else before
            yield self._call(operator, launched, before)
            before = operator

    def _call(self, operator: int, launched: Sequence[int], before: int | None) -> OperatorCall:
        events = self._events
        start, end = events.start_ps, events.end_ps
        between = pairwise(launched)
        waited = before is not None and self._waited_s(int(end[before]), int(start[operator])) > 0.0
        gap_s = None if before is None or waited else self._busy_s(int(end[before]), int(start[operator]))
        return OperatorCall(
            name=events.name_of(operator),
            t1=gap_s,
            t2=self._busy_s(int(start[operator]), int(start[launched[0]])),
            t3=self._busy_s(int(end[launched[-1]]), int(end[operator])),
            t5=tuple(self._busy_s(int(end[one]), int(start[two])) for one, two in between),
            calls=tuple((events.name_of(row), int(end[row] - start[row]) / PS_PER_S) for row in launched),
        )

    def _busy_s(self, begin_ps: int, end_ps: int) -> float:
        """Seconds in which the host does not wait."""
        return max(0.0, (end_ps - begin_ps) / PS_PER_S - self._waited_s(begin_ps, end_ps))

    def _waited_s(self, begin_ps: int, end_ps: int) -> float:
        events = self._events
        inside = [row for row in self._waits if begin_ps <= events.start_ps[row] and events.end_ps[row] <= end_ps]
        return float(np.sum(events.end_ps[inside] - events.start_ps[inside])) / PS_PER_S if inside else 0.0

    def _operator(self, row: int) -> int | None:
        """The outermost operator, or the hook, around a call."""
        found = None
        while (row := self._parent[row]) >= 0:
            hook = self._events.kind[row] == EventKind.ANNOTATION and self._events.name_of(row).startswith(HOOKS)
            if hook or self._events.kind[row] == EventKind.OPERATOR:
                found = row
        return found


def _lacks(trace: RankTrace, message: str, expected: str) -> InputError:
    return InputError(message, file=trace.file, expected=expected)
