"""Programs: the task graph of one iteration, as struct of arrays.

A *program* runs on every rank of a *program group*, the same tasks in the same order; amounts and durations may
differ on each rank. A task sits on one in-order stream of its rank. Besides the order on its stream it depends on
other tasks, of the same iteration (lag 0) or of an earlier one (lag > 0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from inputs.errors import ProgramError
from simulator.agreement import Disagreement, calls_by_communicator, disagreements
from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.work import Work, category_of

IntArray: TypeAlias = NDArray[np.int64]
Dependency: TypeAlias = int | tuple[int, int]
"""A task number of the same program, or (task number, lag in iterations)."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A queue of a rank: each task starts when the one before has ended.

    Attributes:
        controller: the controller that starts its tasks at run time, in the order that it likes; None: nobody has to.
        workers: threads that take tasks from the queue, as soon as these are ready: so many run at once. Several are
            a controller (`simulator.engine.controllers.IssueByReadiness`) that needs no name.

    Raises:
        ProgramError: there is no worker, or several and a controller.
    """

    name: str
    controller: str | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        """Check that one thing starts its tasks."""
        if self.workers < 1 or (self.workers > 1 and self.controller is not None):
            raise ProgramError(
                f"stream {self.name!r} has an impossible number of workers",
                given=self.workers,
                expected="1 with a controller, else at least 1",
            )

    @property
    def in_order(self) -> bool:
        """Whether its tasks run one after the other, in their order."""
        return self.controller is None and self.workers == 1


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks of one iteration for the ranks of one group, and the order between them.

    Attributes:
        name: name of the program group.
        ranks: global rank numbers ``[P]``, ascending.
        streams: the streams of every rank.
        names: task names ``[T]``, unique.
        stream_of: stream index of each task ``[T]``; order on a stream is task order.
        dep_ptr: ``[T + 1]``; the dependencies of task t are entries ``dep_ptr[t]:dep_ptr[t+1]`` of the next two.
        dep_task: the task each dependency waits for.
        dep_lag: number of iterations by which that task ran earlier.
    """

    name: str
    ranks: IntArray
    streams: tuple[Stream, ...]
    names: tuple[str, ...]
    stream_of: IntArray
    dep_ptr: IntArray
    dep_task: IntArray
    dep_lag: IntArray

    @property
    def task_count(self) -> int:
        """T, the number of tasks of one iteration."""
        return len(self.names)

    @property
    def rank_count(self) -> int:
        """P, the number of ranks of the group."""
        return len(self.ranks)


@dataclass(frozen=True, slots=True)
class Program(Tasks):
    """The tasks of one iteration with their operators.

    Attributes:
        sections: part of the iteration each task belongs to ``[T]`` (``input``, ``forward``, ``backward``...).
        work: operator of each task ``[T]``.
    """

    sections: tuple[str, ...]
    work: tuple[Work, ...]

    @property
    def categories(self) -> tuple[Category, ...]:
        """The breakdown category of each task ``[T]``."""
        return tuple(category_of(work) for work in self.work)

    def dependencies(self, task: int) -> list[tuple[int, int]]:
        """The explicit dependencies of ``task`` as (task, lag), stream order not included."""
        entries = range(int(self.dep_ptr[task]), int(self.dep_ptr[task + 1]))
        return [(int(self.dep_task[e]), int(self.dep_lag[e])) for e in entries]


class ProgramBuilder:
    """Collects tasks and builds a `Program`."""

    def __init__(self, name: str, ranks: Sequence[int] | IntArray, streams: Sequence[Stream | str]) -> None:
        """Start an empty program for ``ranks`` (global numbers) with the given streams."""
        self._name = name
        self._ranks = np.asarray(ranks, dtype=np.int64)
        self._streams = tuple(Stream(s) if isinstance(s, str) else s for s in streams)
        self._stream_index = {s.name: i for i, s in enumerate(self._streams)}
        self._names: list[str] = []
        self._sections: list[str] = []
        self._stream_of: list[int] = []
        self._deps: list[list[tuple[int, int]]] = []
        self._work: list[Work] = []

    def task(
        self, name: str, stream: str, work: Work, *, after: Iterable[Dependency] = (), section: str = "iteration"
    ) -> int:
        """Append a task to ``stream`` and return its number.

        Args:
            name: unique within the program.
            after: tasks it waits for: numbers (same iteration) or (number, lag).
            section: part of the iteration, for reports.

        Raises:
            ProgramError: the stream is unknown, or a dependency is negative or has a negative lag.
        """
        if stream not in self._stream_index:
            raise ProgramError(f"task {name!r}: stream {stream!r} is not one of {sorted(self._stream_index)}")
        deps = [d if isinstance(d, tuple) else (d, 0) for d in after]
        for dep_task, lag in deps:
            if dep_task < 0 or lag < 0:
                raise ProgramError(f"task {name!r}: dependency ({dep_task}, lag {lag}) must not be negative")
        self._names.append(name)
        self._sections.append(section)
        self._stream_of.append(self._stream_index[stream])
        self._deps.append(deps)
        self._work.append(work)
        return len(self._names) - 1

    def depend(self, task: int, on: int, *, lag: int = 0) -> None:
        """Add a dependency to an existing task, possibly on a later one (useful with lag > 0)."""
        self._deps[task].append((on, lag))

    def build(self) -> Program:
        """Return the program.

        Raises:
            ProgramError: a name stands twice, a dependency names no task, or ranks are not ascending.
        """
        if len(set(self._names)) != len(self._names):
            twice = next(n for n in self._names if self._names.count(n) > 1)
            raise ProgramError(f"program {self._name!r}: task name {twice!r} stands twice")
        if np.any(np.diff(self._ranks) <= 0):
            raise ProgramError(f"program {self._name!r}: ranks must be ascending and distinct")
        count = len(self._names)
        for name, deps in zip(self._names, self._deps, strict=True):
            missing = [d for d, _ in deps if d >= count]
            if missing:
                raise ProgramError(f"task {name!r} depends on task {missing[0]}, but there are only {count} tasks")
        flat = [d for deps in self._deps for d in deps]
        return Program(
            name=self._name,
            ranks=self._ranks,
            streams=self._streams,
            names=tuple(self._names),
            sections=tuple(self._sections),
            stream_of=np.array(self._stream_of, dtype=np.int64),
            dep_ptr=np.cumsum([0, *(len(d) for d in self._deps)], dtype=np.int64),
            dep_task=np.array([d for d, _ in flat], dtype=np.int64),
            dep_lag=np.array([lag for _, lag in flat], dtype=np.int64),
            work=tuple(self._work),
        )


CopiesIn: TypeAlias = Literal["device", "host"]
"""Memory in which tensors are copied into a buffer and back."""


@dataclass(frozen=True, slots=True)
class Coordinator:
    """A controller that fuses the all_reduces of its streams at run time (`simulator.engine.fusing`).

    Attributes:
        communicator: communicator of all its calls, with one instance.
        fusion_bytes: most bytes in one buffer.
        cycle_s: least time from one look at what is ready to the next, seconds.
        request_bytes: bytes with which a rank says that it is ready for a call.
        copies_in: memory of the buffer.
        announces_each: whether the coordinator sends each buffer's calls to one rank after the other, before it runs;
            else one broadcast answers a cycle.
        algorithm: all_reduce algorithm of the buffers; None: the library's choice.
    """

    communicator: str
    fusion_bytes: float
    cycle_s: float
    request_bytes: float
    copies_in: CopiesIn
    announces_each: bool = False
    algorithm: str | None = None


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """All programs of a job and the communicators their collectives use.

    Attributes:
        programs: one per program group; together they hold each rank at most once.
        communicators: name -> instance number of each global rank ``[world_size]``, -1 where a rank is in none.
            ``world`` is all zeros; one instance per node would be ``rank // local_world_size``.
        coordinators: controllers of streams whose calls are fused at run time, by the name that streams give.
        repeats: whether iterations that nothing random enters are all alike once two are: no rank runs ahead of others
            for longer than an iteration.
    """

    programs: tuple[Program, ...]
    communicators: Mapping[str, IntArray]
    coordinators: Mapping[str, Coordinator] = field(default_factory=dict)
    repeats: bool = False

    @property
    def world_size(self) -> int:
        """Number of ranks over all programs."""
        return sum(p.rank_count for p in self.programs)

    def check(self) -> None:
        """Check that members of every communicator make the same calls.

        Raises:
            ProgramError: ranks overlap, a communicator is unknown or has ranks that do not exist, or two programs
                differ in the op, dtype or communicator of the n-th collective on one communicator; both ranks and calls
                are named.
        """
        ranks = np.concatenate([p.ranks for p in self.programs])
        if len(np.unique(ranks)) != len(ranks):
            raise ProgramError("a rank stands in two programs")
        for name, instance in self.communicators.items():
            if len(instance) <= int(ranks.max()):
                raise ProgramError(f"communicator {name!r} covers {len(instance)} ranks, rank {ranks.max()} is missing")
            strangers = np.setdiff1d(np.flatnonzero(instance >= 0), ranks)
            if len(strangers):
                raise ProgramError(f"communicator {name!r} has rank {strangers[0]}, which no program has")
        calls = [calls_by_communicator(p.work) for p in self.programs]
        for program, by_name in zip(self.programs, calls, strict=True):
            for name in by_name:
                if name not in self.communicators:
                    raise ProgramError(f"program {program.name!r} uses unknown communicator {name!r}")
        for name, instance in self.communicators.items():
            members = [
                (int(number), program, by_name.get(name, []))
                for program, by_name in zip(self.programs, calls, strict=True)
                for number in np.unique(instance[program.ranks])
                if number >= 0
            ]
            for found in disagreements(members):
                raise _disagreement_error(name, found)


def _disagreement_error(communicator: str, found: Disagreement[Program]) -> ProgramError:
    p, q = found.members
    where = f"communicator {communicator!r}, rank {p.ranks[0]} ({p.name}) and rank {q.ranks[0]} ({q.name})"
    if found.is_in_count:
        return ProgramError(f"{where}: {len(found.calls[0])} calls against {len(found.calls[1])}")
    (task_p, call_p), (task_q, call_q) = (calls[found.number] for calls in found.calls)
    return ProgramError(
        f"{where}: call {found.number} differs: {p.names[task_p]} {call_p.op} {call_p.dtype} {call_p.bytes} B "
        f"against {q.names[task_q]} {call_q.op} {call_q.dtype} {call_q.bytes} B"
    )


@dataclass(frozen=True, slots=True)
class Caller:
    """A program's part in a collective: number of the program, number of its task, and the call."""

    program: int
    task: int
    call: CollectiveCall


@dataclass(frozen=True, slots=True, eq=False)
class SequencedCall:
    """The n-th call on a communicator, over all programs that make it.

    Attributes:
        number: n, counted from 0.
        task: name of the first caller's task.
        callers: the programs that make it.
        instance: instance number of each global rank, -1 for ranks that do not take part ``[world_size]``.
    """

    number: int
    task: str
    callers: tuple[Caller, ...]
    instance: IntArray

    @property
    def call(self) -> CollectiveCall:
        """The first program's call; the others agree on op and dtype."""
        return self.callers[0].call

    @property
    def key(self) -> tuple[str, int]:
        """Communicator and number on it, which together name the call."""
        return self.call.communicator, self.number


def sequenced_calls(graph: TaskGraph) -> Iterator[SequencedCall]:
    """All calls of an iteration that have members, by communicator and then in program order."""
    by_program = [calls_by_communicator(program.work) for program in graph.programs]
    for name, instance in graph.communicators.items():
        own = [calls.get(name, []) for calls in by_program]
        for number in range(max(map(len, own), default=0)):
            callers = tuple(Caller(p, *calls[number]) for p, calls in enumerate(own) if number < len(calls))
            members = np.full_like(instance, -1)
            for caller in callers:
                ranks = graph.programs[caller.program].ranks
                members[ranks] = instance[ranks]
            if np.any(members >= 0):
                task = graph.programs[callers[0].program].names[callers[0].task]
                yield SequencedCall(number, task, callers, instance if np.array_equal(members, instance) else members)
