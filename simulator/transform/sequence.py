"""Transformations in sequence, each checked: members make the same calls, and no task waits for itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inputs.errors import InputError
from simulator.program import TaskGraph
from simulator.transform.order import is_ordered
from simulator.transform.transformation import Changed, Groups, Transformation


@dataclass(frozen=True, slots=True)
class ScheduleStep:
    """A transformation by its name."""

    name: str
    transformation: Transformation


@dataclass(frozen=True, slots=True)
class Applied:
    """An applied transformation."""

    step: ScheduleStep
    changed: Changed

    def to_dict(self) -> dict[str, Any]:
        """Name, pattern of tasks, and numbers of changes; plain JSON values."""
        counts = {name: int(value) if value.is_integer() else value for name, value in self.changed.counts.items()}
        return {"transformation": self.step.name, "tasks": self.step.transformation.tasks, **counts}


def applied(
    graph: TaskGraph, steps: Sequence[ScheduleStep], groups: Groups, key: str
) -> tuple[TaskGraph, tuple[Applied, ...]]:
    """The graph after all transformations, and each transformation with its changes.

    Args:
        key: key of the list of transformations in the scenario.

    Raises:
        InputError: a transformation cannot be applied; its key is ``KEY[NUMBER].NAME`` and the key below.
    """
    done = []
    for number, step in enumerate(steps):
        try:
            changed = step.transformation.apply(graph, groups)
            changed.graph.check()
            _require_order(graph, changed.graph)
        except InputError as error:
            error.key = f"{key}[{number}].{step.name}" + (f".{error.key}" if error.key else "")
            raise
        graph = changed.graph
        done.append(Applied(step, changed))
    return graph, tuple(done)


def _require_order(before: TaskGraph, after: TaskGraph) -> None:
    """Refuse a graph in which a task newly waits for itself.

    Raises:
        InputError: a task waits for itself.
    """
    if not is_ordered(after) and is_ordered(before):
        raise InputError("tasks would wait for each other in a circle", expected="tasks that can change their places")
