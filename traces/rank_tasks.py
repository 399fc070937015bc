"""The tasks of one rank, as an importer found them: streams, order, dependencies, measured times, work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np

from simulator.program import IntArray
from simulator.work import Work


@dataclass(frozen=True, slots=True)
class RankTasks:
    """T tasks of one rank in an order in which inputs come first.

    Attributes:
        rank: global rank.
        source: file they come from, for messages.
        streams: names of the in-order queues.
        names: unique names ``[T]``.
        sections: part of the trace, the profiler's step ``[T]``.
        stream_of: stream of each task ``[T]``.
        dep_ptr: dependencies of task t are ``dep_task[dep_ptr[t]:dep_ptr[t + 1]]`` ``[T + 1]``.
        dep_task: the tasks waited for.
        work: operator of each task ``[T]``.
        start_ps: measured starts ``[T]``; zeros where the format has no times.
        end_ps: measured ends ``[T]``; the duration where the format has no times.
    """

    rank: int
    source: str
    streams: tuple[str, ...]
    names: tuple[str, ...]
    sections: tuple[str, ...]
    stream_of: IntArray
    dep_ptr: IntArray
    dep_task: IntArray
    work: tuple[Work, ...]
    start_ps: IntArray
    end_ps: IntArray


class RankTasksBuilder:
    """Collects tasks in any order in which each stream's are ascending."""

    def __init__(self, rank: int, source: str) -> None:
        """Start without tasks."""
        self._rank, self._source = rank, source
        self._streams: dict[str, int] = {}
        self._names: list[str] = []
        self._sections: list[str] = []
        self._stream_of: list[int] = []
        self._work: list[Work] = []
        self._deps: list[list[int]] = []
        self.start_ps: list[int] = []
        self.end_ps: list[int] = []

    def stream(self, name: str) -> int:
        """Number of a stream, made when new."""
        return self._streams.setdefault(name, len(self._streams))

    def task(
        self, name: str, stream: int, work: Work, start_ps: int, end_ps: int, *, section: str, after: Iterable[int] = ()
    ) -> int:
        """Append a task to a stream and return its number."""
        self._names.append(name)
        self._sections.append(section)
        self._stream_of.append(stream)
        self._work.append(work)
        self._deps.append(list(after))
        self.start_ps.append(start_ps)
        self.end_ps.append(end_ps)
        return len(self._names) - 1

    def depend(self, task: int, on: int) -> None:
        """Let a task wait for another."""
        self._deps[task].append(on)

    def build(self) -> RankTasks:
        """The tasks, numbered so that inputs come first (as far as they lie on no cycle), each name made unique."""
        order = self._order()
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order))
        deps = [sorted({int(number[d]) for d in self._deps[task]}) for task in order]
        return RankTasks(
            rank=self._rank,
            source=self._source,
            streams=tuple(self._streams),
            names=_unique(self._names[task] for task in order),
            sections=tuple(self._sections[task] for task in order),
            stream_of=np.array(self._stream_of, dtype=np.int64)[order],
            dep_ptr=np.cumsum([0, *(len(d) for d in deps)], dtype=np.int64),
            dep_task=np.array([d for ds in deps for d in ds], dtype=np.int64),
            work=tuple(self._work[task] for task in order),
            start_ps=np.array(self.start_ps, dtype=np.int64)[order],
            end_ps=np.array(self.end_ps, dtype=np.int64)[order],
        )

    def _order(self) -> list[int]:
        """Tasks by measured time, inputs first."""
        count = len(self._names)
        successors: list[list[int]] = [[] for _ in range(count)]
        missing = [len(deps) for deps in self._deps]
        for task, deps in enumerate(self._deps):
            for dep in deps:
                successors[dep].append(task)
        on_stream: dict[int, list[int]] = {}
        for task, stream in enumerate(self._stream_of):
            on_stream.setdefault(stream, []).append(task)
        for before, task in (pair for tasks in on_stream.values() for pair in pairwise(tasks)):
            successors[before].append(task)
            missing[task] += 1
        ready = [(self.end_ps[t], self.start_ps[t], t) for t in range(count) if not missing[t]]
        heapify(ready)
        order = []
        while ready:
            task = heappop(ready)[2]
            order.append(task)
            for after in successors[task]:
                missing[after] -= 1
                if not missing[after]:
                    heappush(ready, (self.end_ps[after], self.start_ps[after], after))
        return order + [t for t in range(count) if missing[t]]


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    """``name``, ``name #2``, ``name #3``... in order of appearance; a number that is taken is left out."""
    given = list(names)
    taken = set(given)
    seen: Counter[str] = Counter()
    made = []
    for name in given:
        seen[name] += 1
        unique = name if seen[name] == 1 else f"{name} #{seen[name]}"
        while seen[name] > 1 and unique in taken:
            seen[name] += 1
            unique = f"{name} #{seen[name]}"
        made.append(unique)
    return tuple(made)
