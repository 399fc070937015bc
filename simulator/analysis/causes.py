"""The cause of a task's start: its latest input, and in a collective the last member to arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from simulator.analysis.window import Window
from simulator.engine.records import EngineRun
from simulator.lowered import LoweredProgram
from simulator.program import Program


@dataclass(frozen=True, slots=True)
class Place:
    """A task of a rank in an iteration; ``column`` is the rank's position in its group."""

    group: int
    column: int
    iteration: int
    task: int


class History:
    """The recorded times of a run and the order that led to them.

    An input of a task is an explicit dependency or the task before it on its stream. Inputs of iterations that were
    not recorded are left out.
    """

    def __init__(self, programs: Sequence[Program], lowered: LoweredProgram, result: EngineRun) -> None:
        """Index the inputs of every task.

        Args:
            programs: the program of each group, in the run's group order.
            lowered: the same groups lowered: which ranks meet in which collective.
        """
        self._programs, self._lowered = tuple(programs), lowered
        self._records = {record.iteration: record for record in result.records}
        self._inputs = [_inputs(program) for program in programs]

    def program(self, place: Place) -> Program:
        """The program of the place's group."""
        return self._programs[place.group]

    def rank(self, place: Place) -> int:
        """Global rank number."""
        return int(self.program(place).ranks[place.column])

    def start_ps(self, place: Place) -> int:
        """Time at which the rank's inputs were all there (a collective: its arrival)."""
        return self._of(place, "class_start_ps")

    def end_ps(self, place: Place) -> int:
        """End of the task on this rank."""
        return self._of(place, "class_end_ps")

    def waiting_ps(self, place: Place) -> int:
        """Time that the rank waited for the last member of the collective."""
        return self._of(place, "class_waiting_ps")

    def last_ending(self, window: Window) -> Place:
        """The task of the window's iteration that ends last in it; ties: lowest task number, then lowest rank.

        What goes on beyond the window (a measured trace is one iteration, its steps are windows) ends with it.
        """
        groups = self._records[window.iteration].groups
        starts, until = [times.class_start_ps for times in groups], window.end_ps
        ends = [
            np.where(of <= until, np.minimum(times.class_end_ps, until), -1)
            for of, times in zip(starts, groups, strict=True)
        ]
        end = max(int(group.max()) for group in ends)
        last = []
        for number, (group, times) in enumerate(zip(ends, groups, strict=True)):
            tasks, classes = np.nonzero(group == end)
            if len(tasks):
                column = int(times.classes.first[classes[0]])
                last.append(Place(number, column, window.iteration, int(tasks[0])))
        return min(last, key=lambda place: (place.task, self.rank(place)))

    def last_arriver(self, place: Place) -> Place:
        """The member the collective waited for: the place itself unless it waited; ties: lowest rank."""
        if self.waiting_ps(place) == 0:
            return place
        return min(self._arriving(place, self.start_ps(place) + self.waiting_ps(place)), key=self.rank)

    def latest_input(self, place: Place) -> Place | None:
        """The recorded input that ended last; ties: lowest task number; None when it has none."""
        inputs = [*self._fixed_inputs(place), *self._controlled_input(place)]
        return max(inputs, key=lambda p: (self.end_ps(p), -p.task, p.iteration), default=None)

    def _of(self, place: Place, rows: str) -> int:
        times = self._records[place.iteration].groups[place.group]
        return int(getattr(times, rows)[place.task, times.classes.of_rank[place.column]])

    def _arriving(self, place: Place, when_ps: int) -> Iterator[Place]:
        """The first member in each group that came to the place's collective at ``when_ps``."""
        own = self._lowered.groups[place.group]
        instance = own.instances[np.searchsorted(own.activity_tasks, place.task), place.column]
        for number, group in enumerate(self._lowered.groups):
            rows, columns = np.nonzero(group.instances == instance)
            tasks = group.activity_tasks[rows]
            times = self._records[place.iteration].groups[number]
            arrivals = times.class_start_ps[tasks, times.classes.of_rank[columns]]
            for member in np.flatnonzero(arrivals == when_ps)[:1]:
                yield Place(number, int(columns[member]), place.iteration, int(tasks[member]))

    def _fixed_inputs(self, place: Place) -> Iterator[Place]:
        for task, lag in self._inputs[place.group][place.task]:
            if place.iteration - lag in self._records:
                yield Place(place.group, place.column, place.iteration - lag, task)

    def _controlled_input(self, place: Place) -> Iterator[Place]:
        """The task that a controller ran before this one on its stream: only the times show the order."""
        program = self.program(place)
        stream = program.stream_of[place.task]
        if program.streams[stream].in_order:
            return
        for iteration in self._records:
            for task in np.flatnonzero(program.stream_of == stream):
                other = Place(place.group, place.column, iteration, int(task))
                if self.start_ps(other) < self.start_ps(place) and self.end_ps(other) <= self.start_ps(place):
                    yield other


def _inputs(program: Program) -> list[list[tuple[int, int]]]:
    """The (task, lag) each task follows: dependencies, and the task before it on an in-order stream."""
    inputs = [program.dependencies(task) for task in range(program.task_count)]
    for stream, properties in enumerate(program.streams):
        tasks = [int(task) for task in np.flatnonzero(program.stream_of == stream)]
        if properties.in_order and tasks:
            inputs[tasks[0]].append((tasks[-1], 1))
            for before, task in pairwise(tasks):
                inputs[task].append((before, 0))
    return inputs
