"""Timelines as Chrome traces with the field names of PyTorch's profiler (Kineto).

Perfetto, chrome://tracing and tools that read Kineto's JSON open them. One process per rank, one thread per stream;
times in microseconds with picoseconds as decimals. Format: Chrome's "Trace Event Format"; categories and argument
names as libkineto's ``output_json.cpp`` and PyTorch's ``ParamCommsUtils`` write them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from simulator.analysis.timeline import Timeline
from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import Amount, Copy, Delay, Measured
from simulator.precisions import BYTES_PER_ELEMENT
from simulator.program import IntArray, Program, TaskGraph
from simulator.work import Work
from traces.imported import RankStep
from traces.lanes import lane_name, lanes_of
from traces.task_names import common_name

Event: TypeAlias = dict[str, Any]

PS_PER_US = 1e6

_KINETO_CATEGORY: Mapping[Category, str] = {
    Category.COMPUTE: "kernel",
    Category.HOST: "cuda_runtime",
    Category.INPUT: "cpu_op",
}
NO_EVENT = "dlrmsim"
"""Category of tasks without a profiler event: delays before work, collectives' tails without length."""
STEPS = 0
"""Track of the steps; those of the streams follow."""
KEY = "dlrmsim"
"""Key of the head that holds the programs."""
_MEMCPY_NAME: Mapping[str, str] = {
    "h2d": "Memcpy HtoD (Pinned -> Device)",
    "d2h": "Memcpy DtoH (Device -> Pinned)",
    "d2d": "Memcpy DtoD (Device -> Device)",
}


def chrome_trace(
    graph: TaskGraph,
    timeline: Timeline,
    *,
    name: str,
    steps: Sequence[RankStep] = (),
    device: str = "",
    world_size: int | None = None,
    programs: str | None = None,
) -> dict[str, Any]:
    """The trace of all rows of a timeline.

    Args:
        graph: the programs the timeline is of; they give categories, sizes and launch edges.
        timeline: rows of the ranks wanted.
        name: name of the trace.
        steps: iterations as a profiler marked them; default: each iteration of the timeline from its first host task
            to its last.
        device: name of the GPUs.
        world_size: ranks of the job; default: those of the graph.
        programs: data from which `traces.chrome_import` reads the trace back without loss; other readers ignore it.
    """
    ranks = [int(rank) for rank in np.unique(timeline.rank)]
    of_rank = {int(rank): program for program in graph.programs for rank in program.ranks if int(rank) in ranks}
    events = [event for rank in ranks for event in _labels(rank, of_rank[rank])]
    correlation = 1
    for rank in ranks:
        rows = timeline.select(ranks=[rank])
        tracks = _tracks(of_rank[rank], rows)
        marked = [step for step in steps if step.rank == rank]
        events += map(_step_event, marked)
        for iteration in np.unique(rows.iteration):
            tasks = _RankIteration.of(
                graph, of_rank[rank], rows, tracks, rank=rank, iteration=int(iteration), first_correlation=correlation
            )
            events.extend(tasks.events(annotated=not marked))
            correlation += of_rank[rank].task_count
    head: dict[str, Any] = {} if programs is None else {KEY: programs}
    return head | {
        "schemaVersion": 1,
        "traceName": name,
        "displayTimeUnit": "ms",
        "distributedInfo": {
            "backend": "nccl",
            "rank": ranks[0] if ranks else 0,
            "world_size": world_size or graph.world_size,
        },
        "deviceProperties": [{"id": 0, "name": device}] if device else [],
        "traceEvents": events,
    }


def _step_event(step: RankStep) -> Event:
    name = step.name if step.name.startswith("ProfilerStep") else f"ProfilerStep#{step.number}"
    return _step(step.rank, name, step.start_ps / PS_PER_US, (step.end_ps - step.start_ps) / PS_PER_US)


def _step(rank: int, name: str, start_us: float, duration_us: float) -> Event:
    """An iteration, on a track of its own: its edges may lie within tasks, and events of a track must nest."""
    where = {"ph": "X", "cat": "user_annotation", "name": name, "pid": rank, "tid": STEPS}
    return where | {"ts": start_us, "dur": duration_us, "args": {}}


def write_chrome_trace(trace: Mapping[str, Any], path: Path) -> None:
    """Write a trace gzip-compressed, without a time stamp: the same trace gives the same bytes."""
    text = json.dumps(trace, separators=(",", ": "), allow_nan=False)  # HTA looks for a rank behind colon and space
    path.write_bytes(gzip.compress(text.encode("utf-8"), compresslevel=6, mtime=0))


def _labels(rank: int, program: Program) -> Iterator[Event]:
    """Metadata that names the process of a rank and the threads of its streams."""
    yield {"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": f"rank {rank}"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": rank, "tid": 0, "args": {"sort_index": rank}}
    lanes = (lane_name(stream.name, lane) for stream in program.streams for lane in range(stream.workers))
    for number, name in enumerate(("steps", *lanes), start=STEPS):
        label: Event = {"ph": "M", "pid": rank, "tid": number}
        yield label | {"name": "thread_name", "args": {"name": name}}
        yield label | {"name": "thread_sort_index", "args": {"sort_index": number}}


def _tracks(program: Program, rows: Timeline) -> IntArray:
    """The track of each row of a rank's timeline ``[rows]``: one for each worker of a stream."""
    number = {name: task for task, name in enumerate(program.names)}
    of_symbol = np.array([number.get(name, -1) for name in rows.symbols.tasks], dtype=np.int64)
    stream_of = program.stream_of[of_symbol[rows.task]]
    first = np.cumsum([STEPS + 1, *(stream.workers for stream in program.streams)])
    found: IntArray = first[stream_of]
    for stream in [number for number, of in enumerate(program.streams) if not of.in_order]:
        mine = np.flatnonzero(stream_of == stream)
        found[mine] += lanes_of(rows.start_ps[mine], rows.end_ps[mine])
    return found


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
    track: list[int]

    @classmethod
    def of(
        cls,
        graph: TaskGraph,
        program: Program,
        rows: Timeline,
        tracks: IntArray,
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
            tracks[keep][order].tolist(),
        )

    def events(self, *, annotated: bool) -> Iterator[Event]:
        """The iteration's annotation where wanted, its tasks, and the arrows from launches to the launched work."""
        categories = self.program.categories
        host = [task for task, category in enumerate(categories) if category is Category.HOST]
        if annotated and host:
            yield self._annotation(host)
        launched = self._launched(set(host))
        for task, category in enumerate(categories):
            yield self._task(task, category, launched.get(task, task))
        for launch in dict.fromkeys(launched.values()):  # one for all kernels of a CUDA graph
            yield self._arrow("s", launch, launch, self.start_us[launch])
        for kernel, launch in launched.items():
            yield self._arrow("f", kernel, launch, self.start_us[kernel])

    def _launched(self, hosts: set[int]) -> dict[int, int]:
        """Device task -> the host task of the same iteration that launched it, a delay between them or not."""
        pairs: dict[int, int] = {}
        for task in range(self.program.task_count):
            if task in hosts:
                continue
            inputs = [dep for dep, lag in self.program.dependencies(task) if lag == 0]
            known = [dep if dep in hosts else pairs.get(dep) for dep in inputs if dep in hosts or self._is_delay(dep)]
            launches = [launch for launch in known if launch is not None]
            pairs.update({task: launches[-1]} if launches else {})
        return {task: launch for task, launch in pairs.items() if not self._is_delay(task)}

    def _is_delay(self, task: int) -> bool:
        return isinstance(self.program.work[task], Delay)

    def _annotation(self, host: list[int]) -> Event:
        """``ProfilerStep#k`` over the host's part of the iteration, which tools cut traces by."""
        start = min(self.start_us[task] for task in host)
        end = max(self.start_us[task] + self.duration_us[task] for task in host)
        return _step(self.rank, f"ProfilerStep#{self.iteration}", start, end - start)

    def _task(self, task: int, category: Category, launch: int) -> Event:
        work = self.program.work[task]
        tid = self.track[task]
        kind, name = self._kind(task, category)
        args: dict[str, Any] = {"task": task, "section": self.program.sections[task], "iteration": self.iteration}
        if kind != NO_EVENT:
            args["correlation"] = self.first_correlation + launch
        if kind not in (NO_EVENT, "cuda_runtime", "cpu_op"):
            args |= {"stream": tid, "device": self.rank}
        where = {"ph": "X", "cat": kind, "name": name, "pid": self.rank, "tid": tid}
        return where | {"ts": self.start_us[task], "dur": self.duration_us[task], "args": args | self._work(task, work)}

    def _kind(self, task: int, category: Category) -> tuple[str, str]:
        """Category and name as Kineto writes them; tools recognise communication and copies by the name."""
        work = self.program.work[task]
        name = work.name if isinstance(work, Measured) and work.name else common_name(self.program.names[task])
        if category is Category.IDLE or (category is Category.COMM and not self.duration_us[task]):
            return NO_EVENT, name
        if category is Category.COMM:
            op = work.op if isinstance(work, CollectiveCall) else "tail"
            camel = "".join(word.capitalize() for word in op.split("_"))
            return "kernel", name if name.startswith("nccl") else f"ncclDevKernel_{camel} ({name})"
        if category is Category.COPY:
            if not name.startswith(("Memcpy", "Memset")):
                head = _MEMCPY_NAME[work.direction].split(" (")[0] if isinstance(work, Copy) else "Memcpy"
                name = f"{head} ({name})"
            return ("gpu_memset" if name.startswith("Memset") else "gpu_memcpy"), name
        return _KINETO_CATEGORY[category], name

    def _work(self, task: int, work: Work) -> dict[str, Any]:
        """Kineto's arguments of a collective or a copy."""
        if isinstance(work, Copy):
            return {"bytes": int(self._of_rank(work.bytes)), "memcpy": _MEMCPY_NAME[work.direction]}
        if not isinstance(work, CollectiveCall):
            return {}
        instances = self.graph.communicators[work.communicator]
        own = instances[self.rank]
        return {
            "Collective name": work.op,
            "Process Group Name": work.communicator,
            "Group size": int(np.count_nonzero(instances == own)) if own >= 0 else 0,
            "dtype": work.dtype,
            "In msg nelems": int(self._of_rank(work.bytes)) // BYTES_PER_ELEMENT.get(work.dtype, 1),
            "bytes": int(self._of_rank(work.bytes)),
            "waiting_us": self.waiting_us[task],
        }

    def _of_rank(self, amount: Amount) -> float:
        return float(amount[self.column] if isinstance(amount, np.ndarray) else amount)

    def _arrow(self, phase: str, task: int, launch: int, ts: float) -> Event:
        event = {"ph": phase, "cat": "ac2g", "name": "ac2g", "id": self.first_correlation + launch, "pid": self.rank}
        tid = self.track[task]
        return {**event, "tid": tid, "ts": ts} | ({"bp": "e"} if phase == "f" else {})
