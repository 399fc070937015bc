"""``move``: tasks run on another stream.

A stream is in order, and a program has no data: a task may need results of any earlier task on its stream. If one of
two neighbours on the old stream moves, the second waits for the first by a dependency, also across iterations.
``independent`` leaves these dependencies out, for tasks that need only their own dependencies. On the new stream a task
has its place in the order of the program.

Law: the work stays the same, and the order between tasks is kept unless they are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from simulator.program import Stream, TaskGraph
from simulator.transform.editable import EditableProgram, EditableTask, editable, rebuilt, stream_pairs
from simulator.transform.transformation import TRANSFORMATIONS, Changed, Groups, Transformation


class Move(Transformation):
    """Tasks run on another stream."""

    description: ClassVar[str] = "tasks run on another stream"

    to: str = Field(
        min_length=1,
        description="name of the new stream of the tasks; a program that lacks the stream gets it",
    )
    independent: bool = Field(
        False,
        description="whether the tasks need no result of earlier tasks on their old stream",
    )

    def apply(self, graph: TaskGraph, groups: Groups) -> Changed:  # noqa: ARG002 - an interface
        """The graph with tasks on another stream; raises as `Transformation.apply`."""
        programs = editable(graph)
        meant = [
            [task for task in tasks if task.stream != self.to and program.is_in_order(task.stream)]
            for program, tasks in zip(programs, self.matched(programs), strict=True)
        ]
        if not any(meant):
            raise self.refused(
                f"no task that matches can move to {self.to}",
                "tasks of other streams, which no controller or pool of workers issues",
            )
        kept = 0
        for program, tasks in zip(programs, meant, strict=True):
            if tasks:
                self._check(program)
                kept += 0 if self.independent else keep_order(program, set(tasks))
                self._move(program, tasks)
        counts = {"tasks_moved": float(sum(map(len, meant))), "dependencies_added": float(kept)}
        return Changed(rebuilt(graph, programs, [n for n, tasks in enumerate(meant) if tasks]), counts)

    def _check(self, program: EditableProgram) -> None:
        """Refuse a stream whose tasks a controller or several workers issue."""
        streams = {stream.name: stream for stream in program.streams}
        if self.to in streams and not streams[self.to].in_order:
            error = self.refused(
                f"a controller or several workers issue the tasks of {self.to}",
                f"a new name, or one of {', '.join(name for name, stream in streams.items() if stream.in_order)}",
            )
            error.key, error.given = "to", self.to
            raise error

    def _move(self, program: EditableProgram, tasks: Sequence[EditableTask]) -> None:
        if self.to not in {stream.name for stream in program.streams}:
            program.streams.append(Stream(self.to))
        for task in tasks:
            task.stream = self.to


TRANSFORMATIONS.add("move", Move, Move.description)


def keep_order(program: EditableProgram, moved: set[EditableTask]) -> int:
    """Add dependencies between neighbours if one of them moves; returns the number of added dependencies."""
    before = sum(len(task.after) for task in program.tasks)
    for stream, tasks in program.by_stream().items():
        if program.is_in_order(stream):
            for one, other, lag in stream_pairs(tasks):
                if (one in moved) != (other in moved):
                    other.wait_for(one, lag)
    return sum(len(task.after) for task in program.tasks) - before
