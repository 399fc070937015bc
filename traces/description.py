"""Programs as JSON values: what files of ours carry beside their times, so that they can be imported again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simulator.operators import Amount, Category, CollectiveCall, Copy, Delay, Gemm, Measured, Work, category_of
from simulator.program import IntArray, Program, TaskGraph
from traces.imported import Gap, RankStep

VERSION = 2
TAIL = "end of a collective"
"""Name of the work that is a member's part of a collective after the first member's end."""


def described(
    graph: TaskGraph, ends_ps: IntArray, steps: Sequence[RankStep] = (), gaps: Sequence[Gap] = ()
) -> dict[str, Any]:
    """What a timeline needs to be imported again: tasks, dependencies, communicators.

    Args:
        graph: the programs.
        ends_ps: end of every iteration, recorded or not.
        steps: of an import, those its profiler marked.
        gaps: of an import.
    """
    return {
        "version": VERSION,
        "verbatim": all(_has_tails(program) for program in graph.programs),
        "programs": [_described(program) for program in graph.programs],
        "communicators": {name: instance.tolist() for name, instance in graph.communicators.items()},
        "ends_ps": ends_ps.tolist(),
        "steps": [[s.rank, s.number, s.name, s.start_ps, s.end_ps] for s in steps],
        "gaps": [[gap.what, gap.count, gap.ranks] for gap in gaps],
    }


def _has_tails(program: Program) -> bool:
    """Whether a tail follows each collective on its stream, as in imports: such programs are kept as they are."""
    before: dict[int, int] = {}
    tailed = set()
    for task, (stream, work) in enumerate(zip(program.stream_of.tolist(), program.work, strict=True)):
        if isinstance(work, Measured) and work.name == TAIL and stream in before:
            tailed.add(before[stream])
        before[stream] = task
    return all(task in tailed for task, work in enumerate(program.work) if isinstance(work, CollectiveCall))


def _described(program: Program) -> dict[str, Any]:
    return {
        "ranks": program.ranks.tolist(),
        "streams": [stream.name for stream in program.streams],
        "tasks": [
            [name, section, stream, work_words(work), program.dependencies(task)]
            for task, (name, section, stream, work) in enumerate(
                zip(program.names, program.sections, program.stream_of.tolist(), program.work, strict=True)
            )
        ],
    }


def work_words(work: Work) -> list[Any]:
    """The category, what kind of work it is, and what is known of it beside its time."""
    category = str(category_of(work))
    if isinstance(work, CollectiveCall):
        return [category, "collective", work.op, work.communicator, _plain(work.bytes), work.dtype]
    if isinstance(work, Copy):
        return [category, "copy", _plain(work.bytes), work.direction]
    if isinstance(work, Delay):
        return [category, "delay", work.cause]
    if isinstance(work, Measured):
        shape = work.shape
        known = None if shape is None else [shape.m, shape.n, shape.k, shape.precision, shape.count]
        return [category, "measured", work.name, known]
    return [category, "other"]


def _plain(amount: Amount) -> float | list[float]:
    return amount.tolist() if isinstance(amount, np.ndarray) else float(amount)


def work_of(words: Sequence[Any], name: str, column: int, length_ps: int) -> Work:
    """The work of `work_words` on the rank in a column of its program.

    Args:
        words: of the task.
        name: of the task, for work that has none of its own.
        column: the rank's place in the program.
        length_ps: the task's measured length.

    Raises:
        ValueError, KeyError, IndexError, TypeError: these are no such words.
    """
    category, kind, *more = words
    seconds = length_ps / 1e12
    if kind == "collective":
        op, communicator, size, dtype = more
        return CollectiveCall(op, communicator, _amount(size, column), dtype)
    if kind == "copy":
        return Copy(float(np.sum(_amount(more[0], column))), more[1])
    if kind == "delay":
        return Delay(seconds, more[0])
    if kind == "measured":
        shape = None if more[1] is None else Gemm(*more[1])
        return Measured(seconds, Category(category), more[0], shape)
    return Measured(seconds, Category(category), name)


def _amount(stored: float | list[float], column: int) -> Amount:
    return np.array([stored[column]]) if isinstance(stored, list) else float(stored)
