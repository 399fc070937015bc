"""Time in which a rank waits for a batch that has not come in yet.

A task waits for input from the end of its other inputs to that of the `Category.INPUT` task before it, if that ends
later. Inputs of iterations that are not recorded ended before the recorded ones and count as long past.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.categories import Category
from simulator.engine.records import EngineRun
from simulator.program import IntArray, Program


def input_waits(program: Program, group: int, result: EngineRun, first: int) -> tuple[IntArray, IntArray]:
    """Begins and ends of all waits for input in recorded iterations from ``first`` on, ps, each ``[N, C]``."""
    records = {record.iteration: record.groups[group] for record in result.records}
    classes = len(result.records[-1].groups[group].classes.first)
    begins, ends = [np.zeros((0, classes), np.int64)], [np.zeros((0, classes), np.int64)]
    for task, arrivals, others in _consumers(program):
        for iteration in (number for number in records if number >= first):

            def latest(inputs: list[tuple[int, int]], at: int = iteration) -> IntArray:
                known = [records[at - lag].class_end_ps[number] for number, lag in inputs if at - lag in records]
                found: IntArray = np.max([np.zeros(classes, np.int64), *known], axis=0)
                return found

            arrived = np.minimum(latest(arrivals), records[iteration].class_start_ps[task])
            begins.append(np.minimum(latest(others), arrived)[None])
            ends.append(arrived[None])
    return np.concatenate(begins), np.concatenate(ends)


def _consumers(program: Program) -> Iterator[tuple[int, list[tuple[int, int]], list[tuple[int, int]]]]:
    """Tasks that take a batch: number, (task, lag) of what brings it, (task, lag) of all other inputs."""
    brings = [category is Category.INPUT for category in program.categories]
    for task in range(program.task_count):
        inputs = program.dependencies(task)
        arrivals = [(number, lag) for number, lag in inputs if brings[number]]
        if brings[task] or not arrivals:
            continue
        stream = np.flatnonzero(program.stream_of == program.stream_of[task])
        place = int(np.searchsorted(stream, task))
        before = (int(stream[place - 1]), 0) if place else (int(stream[-1]), 1)
        yield task, arrivals, [*(i for i in inputs if i not in arrivals), before]
