"""The interface of a transformation, and the registry of transformations.

A transformation is a pure function of a task graph: its keys in a scenario are a strict model, and `apply` returns
another graph with a record of the changes. Other distributions add transformations by entry points of the group
``dlrmsim.transformations``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from pydantic import Field

from inputs.errors import InputError, nearest_name
from inputs.model import Strict
from simulator.operators import Amount
from simulator.program import IntArray, TaskGraph
from simulator.registry import Registry
from simulator.transform.editable import EditableProgram, EditableTask
from simulator.transform.pattern import NamePattern

Groups = Mapping[str, IntArray]
"""Instance number of each rank ``[W]`` by name of a group of the machine: ``node``, ``world``..."""


MOST_NAMES = 12
"""Largest number of names in a message."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A graph after a transformation.

    Attributes:
        counts: numbers of changes by name; numbers in bytes are means over ranks.
        again: tasks that run again, by the name of their program.
        apart: whether these tasks run again at different places, each just before its result is needed.
        notes: warnings on effects that the model leaves out.
    """

    graph: TaskGraph
    counts: Mapping[str, float]
    again: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    apart: bool = False


class Transformation(Strict):
    """Tasks by name, section and stream, and one change of them."""

    description: ClassVar[str]

    tasks: str = Field("*", min_length=1, description="pattern of the task names; * is any text")
    section: str | None = Field(None, min_length=1, description="pattern of the tasks' section names")
    stream: str | None = Field(None, min_length=1, description="pattern of the tasks' stream names")

    @abstractmethod
    def apply(self, graph: TaskGraph, groups: Groups) -> Changed:
        """The changed graph.

        Raises:
            InputError: no task matches, or no matching task can be changed; its key is below this model.
        """

    def matches(self, program: EditableProgram) -> list[EditableTask]:
        """The selected tasks of a program, in order."""
        name, section, stream = (
            NamePattern(self.tasks),
            NamePattern(self.section or "*"),
            NamePattern(self.stream or "*"),
        )
        return [
            task
            for task in program.tasks
            if name.fits(task.name) and section.fits(task.section) and stream.fits(task.stream)
        ]

    def matched(self, programs: Sequence[EditableProgram]) -> list[list[EditableTask]]:
        """The selected tasks of each program.

        Raises:
            InputError: no program has such a task.
        """
        found = [self.matches(program) for program in programs]
        if not any(found):
            raise self._nothing(programs)
        return found

    def refused(self, message: str, expected: str) -> InputError:
        """Error for a pattern whose tasks cannot be changed in this way."""
        return InputError(message, key="tasks", given=self.tasks, expected=expected)

    def _nothing(self, programs: Sequence[EditableProgram]) -> InputError:
        """Error for the first pattern that alone matches no task, or for the pattern of names."""
        tasks = [task for program in programs for task in program.tasks]
        sections = dict.fromkeys(task.section for task in tasks)
        streams = dict.fromkeys(stream.name for program in programs for stream in program.streams)
        for key, pattern, names in (("section", self.section, sections), ("stream", self.stream, streams)):
            if pattern is not None and not any(map(NamePattern(pattern).fits, names)):
                few = list(names)[:MOST_NAMES]
                expected = f"a pattern of one of {', '.join(few)}{', ...' if len(names) > len(few) else ''}"
                return no_match(f"no {key} matches", key, pattern, names, expected)
        names = dict.fromkeys(task.name for task in tasks)
        return no_match("no task matches", "tasks", self.tasks, names, "a pattern of names of tasks; * is any text")


def no_match(message: str, key: str, pattern: str, names: Mapping[str, None], expected: str) -> InputError:
    """Error for a pattern that matches no name, with the nearest name."""
    return InputError(message, key=key, given=pattern, expected=expected, nearest=_nearest(pattern, names))


def _nearest(pattern: str, names: Iterable[str]) -> str | None:
    """The name whose beginning or end is nearest to the longest text between stars."""
    piece = max(pattern.split("*"), key=len)
    known = {part: name for name in reversed([*names]) for part in (name[: len(piece)], name[-len(piece) :], name)}
    near = nearest_name(piece, known)
    return None if near is None else known[near]


def mean_over_ranks(graph: TaskGraph, amounts: Sequence[Amount]) -> float:
    """Mean over all ranks of an amount of each rank, by program: a scalar, or ``[P]``."""
    whole = sum(
        float(np.sum(np.broadcast_to(amount, program.rank_count)))
        for program, amount in zip(graph.programs, amounts, strict=True)
    )
    return whole / graph.world_size


TRANSFORMATIONS: Registry[type[Transformation]] = Registry(
    "transformation",
    "dlrmsim.transformations",
    modules=tuple(f"simulator.transform.{name}" for name in ("fuse", "decompose", "recompute", "move", "shard")),
)
"""Transformations by name; shipped transformations register themselves at the first look-up."""
