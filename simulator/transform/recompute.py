"""``recompute``: tasks of the forward pass run again before the backward pass needs their results.

The copy of a task runs before the next task that ``before`` matches. If neither pattern starts with a star, a task
belongs to tasks of ``before`` with the same text for the first star, and also for the second star if both patterns have
two: tasks ``layer_*_forward_*`` before ``layer_*_backward_elementwise`` repeat each layer separately. A copy waits for
all originals, for the copies of its original's dependencies, and for its own launch. Collectives run again, too.

Law: the total work grows by the work of the matching tasks and their launches; the order is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from pydantic import Field

from inputs.errors import InputError
from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import HostWork
from simulator.program import TaskGraph
from simulator.transform.editable import EditableProgram, EditableTask, editable, rebuilt
from simulator.transform.launches import Launches, kernels_of, with_launches
from simulator.transform.pattern import NamePattern
from simulator.transform.transformation import TRANSFORMATIONS, Changed, Groups, Transformation
from simulator.work import category_of

AGAIN = "_again"
"""Suffix of the names of copies."""

REPEATED = (Category.COMPUTE, Category.COMM)
"""Categories of tasks that run again: kernels and collectives."""


class Recompute(Transformation):
    """Tasks of the forward pass run again before the backward pass needs their results."""

    description: ClassVar[str] = "tasks of the forward pass run again before the backward pass needs their results"

    section: str | None = Field("*forward", min_length=1, description="pattern of the tasks' section names")
    before: str = Field(
        "*backward*",
        min_length=1,
        description="pattern of task names; each task runs again before the next task that matches",
    )

    def apply(self, graph: TaskGraph, groups: Groups) -> Changed:  # noqa: ARG002 - an interface
        """The graph with copies of tasks; raises as `Transformation.apply`."""
        programs = editable(graph)
        meant = self.matched(programs)
        pairs = [list(self._pairs(p, m)) for p, m in zip(programs, meant, strict=True)]
        if not any(pairs):
            expected = "names of tasks behind those that run again, with the same text for their stars"
            raise InputError("no task that needs them matches", key="before", given=self.before, expected=expected)
        own = ((p, task) for p, of_program in zip(programs, pairs, strict=True) for _, ts in of_program for task in ts)
        if any(isinstance(task.work, CollectiveCall) and p.has_pool(task.stream) for p, task in own):
            expected = "tasks without collectives of several workers: their order must be the same on all members"
            raise self.refused("several workers issue a collective that matches", expected)
        repeaters = [_Repeater(program) for program in programs]
        for repeater, of_program in zip(repeaters, pairs, strict=True):
            for first, tasks in of_program:
                repeater.repeat(tasks, first)
            repeater.finish()
        changed = [number for number, of_program in enumerate(pairs) if of_program]
        again = {
            p.name: [task.name for _, tasks in own for task in tasks] for p, own in zip(programs, pairs, strict=True)
        }
        counts = {
            "tasks_again": float(sum(map(len, again.values()))),
            "kernels_again": float(sum(repeater.kernels for repeater in repeaters)),
        }
        return Changed(rebuilt(graph, programs, changed), counts, again, apart=self.bound_stars > 0)

    @property
    def bound_stars(self) -> int:
        """Number of leading stars that must have the same text in both patterns."""
        patterns = NamePattern(self.tasks), NamePattern(self.before)
        started = any(pattern.text.startswith("*") for pattern in patterns)
        return 0 if started else min(pattern.stars for pattern in patterns)

    def _pairs(
        self, program: EditableProgram, meant: Sequence[EditableTask]
    ) -> Iterator[tuple[EditableTask, list[EditableTask]]]:
        """The first task that needs results, and the tasks that run again before this task."""
        tasks, before, stars = NamePattern(self.tasks), NamePattern(self.before), self.bound_stars
        again, groups = set(meant), dict[EditableTask, list[EditableTask]]()
        following: dict[tuple[str, ...], EditableTask] = {}
        for task in reversed(program.tasks):
            if category_of(task.work) not in REPEATED:
                continue
            if (texts := before.texts(task.name)) is not None:
                following[texts[:stars]] = task
            first = following.get((tasks.texts(task.name) or ())[:stars]) if task in again else None
            if first is not None and first is not task:
                groups.setdefault(first, []).append(task)
        for first, own in reversed(groups.items()):
            yield first, own[::-1]


TRANSFORMATIONS.add("recompute", Recompute, Recompute.description)


@dataclass(slots=True)
class _Repeater:
    """Copies tasks of a program.

    Attributes:
        kernels: number of kernels that run again.
    """

    program: EditableProgram
    kernels: int = 0
    _launches: Launches = field(init=False)
    _place: dict[EditableTask, int] = field(init=False)
    _before: dict[EditableTask, list[EditableTask]] = field(default_factory=dict)
    _copied: dict[EditableTask, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._launches = Launches(self.program)
        self._place = {task: number for number, task in enumerate(self.program.tasks)}

    def repeat(self, tasks: Sequence[EditableTask], first: EditableTask) -> None:
        """Let tasks run again before another task."""
        copies = {task: task.copy(f"{task.name}{AGAIN}") for task in tasks}
        launches = self._launched_again(tasks)
        last = {task.stream: task for task in tasks}
        for task, copy in copies.items():
            own = self._launches.of(task)
            waits = [copies[other] for other, lag in task.after if not lag and other in copies]
            waits += [launches[own]] if own in launches else []
            copy.after = [(other, 0) for other in (*waits, task)]
            for other in last.values():
                copy.wait_for(other)
            first.wait_for(copy)
            self.kernels += kernels_of(task.work)
        self._before.setdefault(self._host_place(first, tasks), []).extend(launches.values())
        self._before.setdefault(first, []).extend(copies.values())

    def _host_place(self, first: EditableTask, tasks: Sequence[EditableTask]) -> EditableTask:
        """The launch of the task before which others run again, if it is behind all of them; else the task itself."""
        host = self._launches.of(first)
        return host if host is not None and self._place[host] > max(self._place[task] for task in tasks) else first

    def finish(self) -> None:
        """Put the copies into the program."""
        self.program.insert(before=self._before)

    def _launched_again(self, tasks: Sequence[EditableTask]) -> dict[EditableTask | None, EditableTask]:
        """Launches of the tasks, each with its share of the cost."""
        found: dict[EditableTask | None, EditableTask] = {}
        for host in dict.fromkeys(self._launches.of(task) for task in tasks):
            if host is None or not isinstance(host.work, HostWork):
                continue
            every = self._launches.launched(host)
            own = sum(kernels_of(task.work) for task in tasks if self._launches.of(task) is host)
            whole = sum(kernels_of(task.work) for task in every)
            work = host.work
            if self._launches.counts(host) and 0 < own < whole:
                work = with_launches(host.work, host.work.launches * own / whole)
            times = self._copied.setdefault(host, 0)
            self._copied[host] += 1
            name = f"{host.name}{AGAIN}" + (f"_{times}" if times else "")
            found[host] = replace(host, name=name, work=work, after=[])
        return found
