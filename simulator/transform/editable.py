"""Editable form of programs: tasks as records that refer to each other, in the order of the program.

`simulator.program.Program` is a struct of arrays, in which a new task changes the numbers of all later tasks.
Transformations change records, and the program is built again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from simulator.program import IntArray, Program, ProgramBuilder, Stream, TaskGraph
from simulator.work import Work


@dataclass(slots=True, eq=False)
class EditableTask:
    """A task.

    Attributes:
        after: tasks that the task waits for, each with a lag in iterations.
    """

    name: str
    stream: str
    work: Work
    section: str
    after: list[tuple[EditableTask, int]] = field(default_factory=list)

    def wait_for(self, task: EditableTask, lag: int = 0) -> None:
        """Add a dependency, unless the task has it."""
        if (task, lag) not in self.after:
            self.after.append((task, lag))

    def copy(self, name: str, work: Work | None = None) -> EditableTask:
        """A copy of the task under another name, with the same dependencies, and optionally other work."""
        return replace(self, name=name, work=self.work if work is None else work, after=list(self.after))


@dataclass(slots=True)
class EditableProgram:
    """A program whose tasks can be changed.

    Attributes:
        tasks: tasks in the order of the program, which is also the order on each stream.
    """

    name: str
    ranks: IntArray
    streams: list[Stream]
    tasks: list[EditableTask]

    @staticmethod
    def of(program: Program) -> EditableProgram:
        """The records of a program."""
        names = [stream.name for stream in program.streams]
        tasks = [
            EditableTask(name, names[stream], work, section)
            for name, stream, work, section in zip(
                program.names, program.stream_of.tolist(), program.work, program.sections, strict=True
            )
        ]
        for number, task in enumerate(tasks):
            task.after = [(tasks[other], lag) for other, lag in program.dependencies(number)]
        return EditableProgram(program.name, program.ranks, list(program.streams), tasks)

    def program(self) -> Program:
        """The program of the records.

        Raises:
            ProgramError: two tasks have the same name, or a stream is unknown.
        """
        builder = ProgramBuilder(self.name, self.ranks, self.streams)
        number = {task: builder.task(task.name, task.stream, task.work, section=task.section) for task in self.tasks}
        for task in self.tasks:
            for other, lag in task.after:
                builder.depend(number[task], number[other], lag=lag)
        return builder.build()

    def is_in_order(self, stream: str) -> bool:
        """Whether the tasks of a stream run one after the other, in their order."""
        return next(s.in_order for s in self.streams if s.name == stream)

    def has_pool(self, stream: str) -> bool:
        """Whether several workers issue the tasks of a stream, so that the order may differ between ranks."""
        return next(s.workers > 1 for s in self.streams if s.name == stream)

    def by_stream(self) -> dict[str, list[EditableTask]]:
        """The tasks of each stream, in order."""
        found: dict[str, list[EditableTask]] = {stream.name: [] for stream in self.streams}
        for task in self.tasks:
            found[task.stream].append(task)
        return found

    def dependents(self) -> dict[EditableTask, list[tuple[EditableTask, int]]]:
        """Tasks that wait for each task by an explicit dependency, with their lags."""
        found: dict[EditableTask, list[tuple[EditableTask, int]]] = {task: [] for task in self.tasks}
        for task in self.tasks:
            for other, lag in task.after:
                found[other].append((task, lag))
        return found

    def insert(
        self,
        *,
        before: Mapping[EditableTask, Sequence[EditableTask]] | None = None,
        behind: Mapping[EditableTask, Sequence[EditableTask]] | None = None,
    ) -> None:
        """Put tasks right before or right behind others in the order of the program."""
        first, last = before or {}, behind or {}
        self.tasks = [new for task in self.tasks for new in (*first.get(task, ()), task, *last.get(task, ()))]

    def merge(self, merged: Mapping[EditableTask, EditableTask]) -> None:
        """Remove fused tasks; their successors wait for the task that they became part of."""
        self.tasks = [task for task in self.tasks if task not in merged]
        for task in self.tasks:
            if any(other in merged for other, _ in task.after):
                known = dict.fromkeys((_last(other, merged), lag) for other, lag in task.after)
                task.after = [(other, lag) for other, lag in known if other is not task or lag]


def _last(task: EditableTask, merged: Mapping[EditableTask, EditableTask]) -> EditableTask:
    while task in merged:
        task = merged[task]
    return task


def editable(graph: TaskGraph) -> list[EditableProgram]:
    """The programs of a graph as records."""
    return [EditableProgram.of(program) for program in graph.programs]


def rebuilt(graph: TaskGraph, programs: Iterable[EditableProgram], changed: Collection[int]) -> TaskGraph:
    """The graph with some programs built again; the other programs are the same objects."""
    kept = zip(graph.programs, programs, strict=True)
    return replace(
        graph,
        programs=tuple(new.program() if number in changed else old for number, (old, new) in enumerate(kept)),
    )


def stream_pairs(tasks: Sequence[EditableTask]) -> Iterator[tuple[EditableTask, EditableTask, int]]:
    """Neighbours on an in-order stream, with their lag: the last task precedes the next iteration's first task."""
    for place, task in enumerate(tasks):
        yield tasks[place - 1], task, int(place == 0)
