"""Timelines as Chrome traces with the field names of PyTorch's profiler (Kineto).

Perfetto, chrome://tracing and tools that read Kineto's JSON open them. One process per rank, one thread per stream;
times in microseconds with picoseconds as decimals. Format: Chrome's "Trace Event Format"; categories and argument
names as libkineto's ``output_json.cpp`` and PyTorch's ``ParamCommsUtils`` write them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from simulator.analysis.timeline import Timeline
from simulator.operators import BYTES_PER_ELEMENT, Amount, Category, CollectiveCall, Copy, Work
from simulator.program import Program, TaskGraph

Event: TypeAlias = dict[str, Any]

PS_PER_US = 1e6

_KINETO_CATEGORY: Mapping[Category, str] = {
    Category.COMPUTE: "kernel",
    Category.COMM: "kernel",
    Category.COPY: "gpu_memcpy",
    Category.HOST: "cuda_runtime",
    Category.INPUT: "cpu_op",
}
_MEMCPY_NAME: Mapping[str, str] = {
    "h2d": "Memcpy HtoD (Pinned -> Device)",
    "d2h": "Memcpy DtoH (Device -> Pinned)",
    "d2d": "Memcpy DtoD (Device -> Device)",
}


def chrome_trace(graph: TaskGraph, timeline: Timeline, *, name: str) -> dict[str, Any]:
    """The trace of all rows of a timeline.

    Args:
        graph: the programs the timeline is of; they give categories, sizes and launch edges.
        timeline: rows of the ranks wanted.
        name: of the trace.
    """
    ranks = [int(rank) for rank in np.unique(timeline.rank)]
    programs = {int(rank): program for program in graph.programs for rank in program.ranks if int(rank) in ranks}
    events = [event for rank in ranks for event in _labels(rank, programs[rank])]
    correlation = 0
    for rank in ranks:
        rows = timeline.select(ranks=[rank])
        for iteration in np.unique(rows.iteration):
            tasks = _RankIteration.of(
                graph, programs[rank], rows, rank=rank, iteration=int(iteration), first_correlation=correlation
            )
            events.extend(tasks.events())
            correlation += programs[rank].task_count
    return {
        "schemaVersion": 1,
        "traceName": name,
        "displayTimeUnit": "ms",
        "distributedInfo": {"backend": "nccl", "rank": ranks[0] if ranks else 0, "world_size": graph.world_size},
        "deviceProperties": [],
        "traceEvents": events,
    }


def write_chrome_trace(trace: Mapping[str, Any], path: Path) -> None:
    """Write a trace gzip-compressed, without a time stamp: the same trace gives the same bytes."""
    text = json.dumps(trace, separators=(",", ":"), allow_nan=False)
    path.write_bytes(gzip.compress(text.encode("utf-8"), compresslevel=6, mtime=0))


def _labels(rank: int, program: Program) -> Iterator[Event]:
    """Metadata that names the process of a rank and the threads of its streams."""
    yield {"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": f"rank {rank}"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": rank, "tid": 0, "args": {"sort_index": rank}}
    for number, stream in enumerate(program.streams):
        yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": number, "args": {"name": stream.name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": rank, "tid": number, "args": {"sort_index": number}}


@dataclass(frozen=True, slots=True)
class _RankIteration:
    """The tasks of one iteration on one rank; ``column`` is the rank's place in its program."""

    graph: TaskGraph
    program: Program
    rank: int
    column: int
    iteration: int
    first_correlation: int
    start_us: list[float]
    duration_us: list[float]
    waiting_us: list[float]

    @classmethod
    def of(
        cls,
        graph: TaskGraph,
        program: Program,
        rows: Timeline,
        *,
        rank: int,
        iteration: int,
        first_correlation: int,
    ) -> _RankIteration:
        """Pick the iteration's rows of a rank's timeline, in task order."""
        keep = rows.iteration == iteration
        symbol = {name: number for number, name in enumerate(rows.symbols.tasks)}
        row_of = {int(task): row for row, task in enumerate(rows.task[keep])}
        order = np.array([row_of[symbol[name]] for name in program.names])
        start_ps = rows.start_ps[keep][order]
        return cls(
            graph,
            program,
            rank,
            int(np.searchsorted(program.ranks, rank)),
            iteration,
            first_correlation,
            (start_ps / PS_PER_US).tolist(),
            ((rows.end_ps[keep][order] - start_ps) / PS_PER_US).tolist(),
            (rows.waiting_ps[keep][order] / PS_PER_US).tolist(),
        )

    def events(self) -> Iterator[Event]:
        """The iteration's annotation, its tasks, and the arrows from launches to what they launched."""
        categories = self.program.categories
        host = [task for task, category in enumerate(categories) if category is Category.HOST]
        yield from self._annotation(host)
        launched = self._launched(host)
        for task, category in enumerate(categories):
            if category is not Category.IDLE:
                yield self._task(task, category, launched.get(task, task))
        for launch in dict.fromkeys(launched.values()):  # one for all kernels of a CUDA graph
            yield self._arrow("s", launch, launch, self.start_us[launch])
        for kernel, launch in launched.items():
            yield self._arrow("f", kernel, launch, self.start_us[kernel])

    def _launched(self, host: list[int]) -> dict[int, int]:
        """Device task -> the host task of the same iteration that launched it."""
        hosts = set(host)
        pairs = {}
        for task in range(self.program.task_count):
            if task not in hosts:
                launches = [dep for dep, lag in self.program.dependencies(task) if lag == 0 and dep in hosts]
                pairs.update({task: launches[-1]} if launches else {})
        return pairs

    def _annotation(self, host: list[int]) -> Iterator[Event]:
        """``ProfilerStep#k`` over the host's part of the iteration, which tools cut traces by."""
        if not host:
            return
        start = min(self.start_us[task] for task in host)
        end = max(self.start_us[task] + self.duration_us[task] for task in host)
        tid = int(self.program.stream_of[host[0]])
        name = f"ProfilerStep#{self.iteration}"
        yield {"ph": "X", "cat": "user_annotation", "name": name, "pid": self.rank, "tid": tid} | {
            "ts": start,
            "dur": end - start,
            "args": {},
        }

    def _task(self, task: int, category: Category, launch: int) -> Event:
        work = self.program.work[task]
        stream = int(self.program.stream_of[task])
        args = {
            "stream": stream,
            "device": self.rank,
            "correlation": self.first_correlation + launch,
            "section": self.program.sections[task],
            "iteration": self.iteration,
        }
        return {
            "ph": "X",
            "cat": _KINETO_CATEGORY[category],
            "name": self.program.names[task],
            "pid": self.rank,
            "tid": stream,
            "ts": self.start_us[task],
            "dur": self.duration_us[task],
            "args": args | self._work(task, work),
        }

    def _work(self, task: int, work: Work) -> dict[str, Any]:
        """What Kineto says about a collective or a copy."""
        if isinstance(work, Copy):
            return {"bytes": int(self._mine(work.bytes)), "memcpy": _MEMCPY_NAME[work.direction]}
        if not isinstance(work, CollectiveCall):
            return {}
        instances = self.graph.communicators[work.communicator]
        own = instances[self.rank]
        return {
            "Collective name": work.op,
            "Process Group Name": work.communicator,
            "Group size": int(np.count_nonzero(instances == own)) if own >= 0 else 0,
            "dtype": work.dtype,
            "In msg nelems": int(self._mine(work.bytes)) // BYTES_PER_ELEMENT.get(work.dtype, 1),
            "bytes": int(self._mine(work.bytes)),
            "waiting_us": self.waiting_us[task],
        }

    def _mine(self, amount: Amount) -> float:
        return float(amount[self.column] if isinstance(amount, np.ndarray) else amount)

    def _arrow(self, phase: str, task: int, launch: int, ts: float) -> Event:
        event = {"ph": phase, "cat": "ac2g", "name": "ac2g", "id": self.first_correlation + launch, "pid": self.rank}
        tid = int(self.program.stream_of[task])
        return {**event, "tid": tid, "ts": ts} | ({"bp": "e"} if phase == "f" else {})
