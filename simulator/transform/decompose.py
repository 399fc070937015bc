"""``decompose``: a collective is cut into parts, together with the computation before or behind it.

With a number of parts, the bytes of the collective are divided equally, and so is each kernel that the collective waits
for (``beside: producers``) or that waits for the collective (``consumers``). Part i of the collective waits for part i
of its producers; part i of a consumer waits for part i of the collective. With ``halves`` an all_reduce becomes a
reduce_scatter and an all_gather, which together move the same bytes. Members of a communicator make the same calls: if
one member's call is selected, the calls of all members are cut.

Law: operations and bytes of collectives stay the same. The last part replaces the whole collective, and the first part
waits for all tasks that the whole waited for: the order between tasks is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import HostWork
from simulator.program import IntArray, TaskGraph
from simulator.transform.cutting import part_of
from simulator.transform.editable import EditableProgram, EditableTask, editable, rebuilt
from simulator.transform.launches import Launches, kernels_of, with_launches
from simulator.transform.transformation import TRANSFORMATIONS, Changed, Groups, Transformation
from simulator.work import category_of

Beside: TypeAlias = Literal["producers", "consumers", "nothing"]
"""Kernels that are cut with a collective: kernels before the collective, kernels that wait for it, or none."""


class Decompose(Transformation):
    """A collective is cut into parts that overlap with parts of its computation, or into two halves."""

    description: ClassVar[str] = "a collective is cut into parts that overlap with parts of its computation"

    into: Annotated[int, Field(ge=2, le=1024)] | Literal["halves"] = Field(
        description="number of equal parts; halves: an all_reduce becomes a reduce_scatter and an all_gather"
    )
    beside: Beside = Field(
        "producers",
        description="kernels that are cut with the collective: producers (the collective waits for them), consumers "
        "(they wait for the collective) or nothing",
    )

    def apply(self, graph: TaskGraph, groups: Groups) -> Changed:  # noqa: ARG002 - an interface
        """The graph with parts of collectives; raises as `Transformation.apply`."""
        programs = editable(graph)
        meant = {task for tasks in self.matched(programs) for task in tasks if self._can(graph, task)}
        if not meant:
            expected = "all_reduces" if self.into == "halves" else "collectives"
            fused = " that no coordinator fuses" if graph.coordinators else ""
            raise self.refused("no task that matches can be decomposed", f"names of {expected}{fused}")
        calls = list(_every_member(graph, programs, meant))
        if any(p.has_pool(task.stream) for p, own in zip(programs, calls, strict=True) for task in own):
            expected = "collectives of streams with one worker: the order of parts must be the same on all members"
            raise self.refused("several workers issue a collective that matches", expected)
        cutters = [_Cutter(program, self.into, self.beside) for program in programs]
        for cutter, own in zip(cutters, calls, strict=True):
            for task in own:
                cutter.cut(task)
            cutter.finish()
        changed = [number for number, own in enumerate(calls) if own]
        counts = {
            "collectives": float(sum(map(len, calls))),
            "kernels_cut": float(sum(cutter.kernels for cutter in cutters)),
        }
        return Changed(rebuilt(graph, programs, changed), counts)

    def _can(self, graph: TaskGraph, task: EditableTask) -> bool:
        if not isinstance(task.work, CollectiveCall):
            return False
        fused = {stream.name for p in graph.programs for stream in p.streams if stream.controller in graph.coordinators}
        return self.into != "halves" or (task.work.op == "all_reduce" and task.stream not in fused)


TRANSFORMATIONS.add("decompose", Decompose, Decompose.description)


def _every_member(
    graph: TaskGraph, programs: Sequence[EditableProgram], meant: set[EditableTask]
) -> Iterator[list[EditableTask]]:
    """Tasks of each program: the selected calls, and the same calls of other members."""
    sequences = [_calls(program) for program in programs]
    chosen: set[tuple[str, int, int]] = set()
    for of_program, program in zip(sequences, programs, strict=True):
        for name, calls in of_program.items():
            instances = _instances(graph.communicators[name], program.ranks)
            chosen |= {(name, n, i) for n, task in enumerate(calls) if task in meant for i in instances}
    spread = True
    while spread:  # members of a selected instance are members of other instances, too
        before = len(chosen)
        for of_program, program in zip(sequences, programs, strict=True):
            for name, calls in of_program.items():
                instances = _instances(graph.communicators[name], program.ranks)
                for number in range(len(calls)):
                    if any((name, number, i) in chosen for i in instances):
                        chosen |= {(name, number, i) for i in instances}
        spread = len(chosen) > before
    for of_program, program in zip(sequences, programs, strict=True):
        yield [
            task
            for name, calls in of_program.items()
            for number, task in enumerate(calls)
            if any((name, number, i) in chosen for i in _instances(graph.communicators[name], program.ranks))
        ]


def _calls(program: EditableProgram) -> dict[str, list[EditableTask]]:
    found: dict[str, list[EditableTask]] = {}
    for task in program.tasks:
        if isinstance(task.work, CollectiveCall):
            found.setdefault(task.work.communicator, []).append(task)
    return found


def _instances(instance: IntArray, ranks: IntArray) -> list[int]:
    return [number for number in set(instance[ranks].tolist()) if number >= 0]


@dataclass(slots=True)
class _Cutter:
    """Cuts collectives of a program, and kernels beside them.

    Attributes:
        kernels: number of cut kernels.
    """

    program: EditableProgram
    into: int | Literal["halves"]
    beside: Beside
    kernels: int = 0
    _launches: Launches = field(init=False)
    _dependents: dict[EditableTask, list[tuple[EditableTask, int]]] = field(init=False)
    _parts: dict[EditableTask, list[EditableTask]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._launches, self._dependents = Launches(self.program), self.program.dependents()

    def cut(self, task: EditableTask) -> None:
        """Cut a collective."""
        if not isinstance(task.work, CollectiveCall):
            raise TypeError("only collectives are decomposed")
        if self.into == "halves":
            scatter = task.copy(f"{task.name}_reduce_scatter", replace(task.work, op="reduce_scatter"))
            task.work = replace(task.work, op="all_gather")
            task.after = [(scatter, 0)]
            self._parts[task] = [scatter, task]
            self._launch_more(task, 1, collectives=1)
            return
        near = self._near(task)
        cut = self._cut(task, self.into)
        for one in near:
            known = one in self._parts
            parts = self._parts[one] if known else self._cut(one, self.into)
            self.kernels += not known
            pairs = zip(cut, parts, strict=True) if self.beside == "producers" else zip(parts, cut, strict=True)
            for waiting, on in pairs:
                waiting.after = [
                    (other, lag) for other, lag in waiting.after if (other, lag) != (_whole(on, parts, cut), 0)
                ]
                waiting.wait_for(on)

    def finish(self) -> None:
        """Put the parts into the program."""
        self.program.insert(before={task: parts[:-1] for task, parts in self._parts.items()})

    def _near(self, task: EditableTask) -> list[EditableTask]:
        """Kernels that are cut with a collective."""
        if self.beside == "nothing" or self.into == "halves":
            return []
        producers = self.beside == "producers"
        tasks = task.after if producers else self._dependents[task]
        found = [other for other, lag in tasks if not lag and category_of(other.work) is Category.COMPUTE]
        return [other for other in dict.fromkeys(found) if part_of(other.work, self.into) is not None]

    def _cut(self, task: EditableTask, parts: int) -> list[EditableTask]:
        """Equal parts of a task, each behind the part before; the last part is the task itself."""
        work = part_of(task.work, parts)
        if work is None:
            raise TypeError(f"{task.name} cannot be cut")
        is_call = isinstance(work, CollectiveCall)
        self._launch_more(
            task, (parts - 1) * (1 if is_call else kernels_of(task.work)), collectives=(parts - 1) * is_call
        )
        task.work = work
        found = [task.copy(f"{task.name}_part_{number}") for number in range(parts - 1)]
        found.append(task)
        for before, after in pairwise(found):
            after.wait_for(before)
        self._parts[task] = found
        return found

    def _launch_more(self, task: EditableTask, number: int, *, collectives: int = 0) -> None:
        """Let the host launch more parts."""
        host = self._launches.of(task)
        if collectives:  # only separate launches: recorders of some families have no launches of collectives
            host = host if host is not None and (host, 0) in task.after else None
        if host is not None and isinstance(host.work, HostWork) and (collectives or self._launches.counts(host)):
            more = float(collectives) if host.work.collectives else 0.0
            host.work = with_launches(host.work, host.work.launches + number, more)


def _whole(on: EditableTask, parts: list[EditableTask], cut: list[EditableTask]) -> EditableTask:
    """The task that a part belongs to."""
    return parts[-1] if on in parts else cut[-1]
