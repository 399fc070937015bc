"""Compiling a program group into units of evaluation.

The ends of activities are what is not known in advance; everything else follows from them by arithmetic. Private tasks
whose results follow from the same unknowns become known at the same moment, so they form one *unit* and are evaluated
together, for whatever ranks have all inputs. An activity task is a unit of its own, and so is a task on a controlled
stream. Units depend on units, of this or of an earlier iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from heapq import heapify, heappop, heappush

from simulator.lowered import LoweredGroup

Source = tuple[int, int]
"""(task, lag): an input of a task."""


class Kind(Enum):
    """Way in which the end of a unit becomes known."""

    PRIVATE = auto()
    ACTIVITY = auto()
    CONTROLLED = auto()
    BLOCKED = auto()  # on a cycle of dependencies, or behind one: never


@dataclass(frozen=True, slots=True)
class Unit:
    """Tasks that are evaluated together, in this order (one task unless private)."""

    kind: Kind
    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a group.

    Attributes:
        units: the units ``[U]``.
        sources: inputs of each task ``[T]``, stream order included.
        inputs: distinct (unit, lag) that each unit needs.
        successors: (unit, lag) that need each unit.
        max_lag: most iterations that an input can lie back (1 or more).
    """

    units: tuple[Unit, ...]
    sources: tuple[tuple[Source, ...], ...]
    inputs: tuple[tuple[Source, ...], ...]
    successors: tuple[tuple[Source, ...], ...]
    max_lag: int

    def missing_at(self, iteration: int) -> list[int]:
        """Number of inputs of each unit that have to become known in ``iteration`` ``[U]``.

        Inputs from before iteration 0 do not exist; a blocked unit misses one that never comes.
        """
        return [
            sum(lag <= iteration for _, lag in inputs) + (unit.kind is Kind.BLOCKED)
            for unit, inputs in zip(self.units, self.inputs, strict=True)
        ]


def compile_units(group: LoweredGroup, private: frozenset[int]) -> Units:
    """The units of ``group``; activity tasks in ``private`` count as private tasks (nothing shares with them)."""
    sources = tuple(_with_stream_order(group))
    order = _topological(sources)
    kinds = _kinds(group, private, order)
    unknowns = _unknowns(group, order, sources, kinds)
    grouped: dict[object, list[int]] = {}
    for task in order:
        key = unknowns[task] if kinds[task] is Kind.PRIVATE else task
        grouped.setdefault(key, []).append(task)
    for task in sorted(set(range(group.task_count)) - set(order)):
        grouped[task] = [task]
    units = tuple(Unit(kinds[tasks[0]], tuple(tasks)) for tasks in grouped.values())
    return _link(units, sources)


def _with_stream_order(group: LoweredGroup) -> list[tuple[Source, ...]]:
    """Inputs of each task: its dependencies, the task before it on its stream, or the stream's last task, lag 1.

    A task of a controlled stream waits for itself in the iteration before instead: the controller orders the rest.
    """
    last_on_stream: dict[int, int] = {}
    first_on_stream: dict[int, int] = {}
    inputs: list[list[Source]] = []
    for task in range(group.task_count):
        entries = range(int(group.dep_ptr[task]), int(group.dep_ptr[task + 1]))
        inputs.append([(int(group.dep_task[e]), int(group.dep_lag[e])) for e in entries])
        stream = int(group.stream_of[task])
        if not group.streams[stream].in_order:
            inputs[task].append((task, 1))
        elif stream in last_on_stream:
            inputs[task].append((last_on_stream[stream], 0))
        else:
            first_on_stream[stream] = task
        last_on_stream[stream] = task
    for stream, task in first_on_stream.items():
        inputs[task].append((last_on_stream[stream], 1))
    return [tuple(dict.fromkeys(sources)) for sources in inputs]


def _topological(sources: Sequence[Sequence[Source]]) -> list[int]:
    """Tasks in an order that respects lag-0 inputs, lowest number first; tasks on or behind a cycle are left out."""
    waiting = [sum(lag == 0 for _, lag in inputs) for inputs in sources]
    followers: list[list[int]] = [[] for _ in sources]
    for task, inputs in enumerate(sources):
        for dep, lag in inputs:
            if lag == 0:
                followers[dep].append(task)
    ready = [task for task, count in enumerate(waiting) if count == 0]
    heapify(ready)
    order = []
    while ready:
        task = heappop(ready)
        order.append(task)
        for follower in followers[task]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heappush(ready, follower)
    return order


def _kinds(group: LoweredGroup, private: frozenset[int], order: Sequence[int]) -> list[Kind]:
    kinds = [Kind.BLOCKED] * group.task_count
    activities = set(group.activity_tasks.tolist()) - private
    for task in order:
        if not group.streams[int(group.stream_of[task])].in_order:
            kinds[task] = Kind.CONTROLLED
        else:
            kinds[task] = Kind.ACTIVITY if task in activities else Kind.PRIVATE
    return kinds


def _unknowns(
    group: LoweredGroup, order: Sequence[int], sources: Sequence[Sequence[Source]], kinds: Sequence[Kind]
) -> dict[int, tuple[int, frozenset[tuple[int, int, int]]]]:
    """Prerequisites of each task: tasks with equal prerequisites become known together.

    Two parts: the non-private tasks of the same iteration it follows from (a bit set), and the inputs from earlier
    iterations, of which only the latest on each in-order stream matters.
    """
    above: dict[int, tuple[int, frozenset[tuple[int, int, int]]]] = {}
    for task in order:
        bits = 0
        earlier: dict[int, tuple[int, int]] = {}
        for dep, lag in sources[task]:
            if lag > 0:
                _keep_latest(earlier, _lane(group, dep), (lag, -dep))
                continue
            bits |= above[dep][0] | (0 if kinds[dep] is Kind.PRIVATE else 1 << dep)
            for lane, dep_lag, dep_rank in above[dep][1]:
                _keep_latest(earlier, lane, (dep_lag, dep_rank))
        above[task] = (bits, frozenset((lane, *latest) for lane, latest in earlier.items()))
    return above


def _lane(group: LoweredGroup, task: int) -> int:
    """Tasks of one lane end in task order: the tasks of an in-order stream, a single task of a controlled one."""
    stream = int(group.stream_of[task])
    return stream if group.streams[stream].in_order else len(group.streams) + task


def _keep_latest(earlier: dict[int, tuple[int, int]], lane: int, entry: tuple[int, int]) -> None:
    """Keep the smaller (lag, -task): the later task."""
    earlier[lane] = min(entry, earlier.get(lane, entry))


def _link(units: tuple[Unit, ...], sources: tuple[tuple[Source, ...], ...]) -> Units:
    """Lift the inputs of tasks to inputs of units."""
    unit_of = {task: number for number, unit in enumerate(units) for task in unit.tasks}
    inputs: list[tuple[Source, ...]] = []
    successors: list[list[Source]] = [[] for _ in units]
    for number, unit in enumerate(units):
        needed = dict.fromkeys((unit_of[dep], lag) for task in unit.tasks for dep, lag in sources[task])
        needed.pop((number, 0), None)
        inputs.append(tuple(needed))
        for needed_unit, lag in needed:
            successors[needed_unit].append((number, lag))
    return Units(
        units=units,
        sources=sources,
        inputs=tuple(inputs),
        successors=tuple(tuple(s) for s in successors),
        max_lag=max([1, *(lag for task in sources for _, lag in task)]),
    )
