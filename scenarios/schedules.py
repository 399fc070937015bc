"""Transformations of a scenario: their keys, and the transformed task graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from inputs.keys import KeyPath, key_text
from inputs.quantities import format_quantity
from inputs.validate import validate
from inputs.yaml_lines import Document
from scenarios.located import located
from scenarios.resolved import ResolvedScenario
from simulator.lowering import Machine
from simulator.program import TaskGraph
from simulator.transform.sequence import Applied, ScheduleStep, applied
from simulator.transform.transformation import TRANSFORMATIONS, Groups
from workloads.family import RepeatingWorkload, Workload

TRANSFORM: KeyPath = ("transform",)

UNCHANGED_MEMORY = "memory is that of a job without recompute: this kind of workload does not say what a task keeps"


def read_steps(document: Document, given: Sequence[Mapping[str, Any]] | None) -> tuple[ScheduleStep, ...]:
    """The transformations of a scenario, in order; a text in place of a mapping is the pattern of tasks.

    Raises:
        InputError: an item does not have exactly one key, no transformation has this name, or its keys are wrong.
    """
    return tuple(_step(document, (*TRANSFORM, number), item) for number, item in enumerate(given or ()))


def _step(document: Document, path: KeyPath, item: Mapping[str, Any]) -> ScheduleStep:
    if len(item) != 1:
        expected = f'one of {", ".join(TRANSFORMATIONS.names())}, e.g. {{fuse: "layer_*"}}'
        raise document.error(path, "a transformation has one name", given=dict(item), expected=expected)
    ((name, keys),) = item.items()
    with located(document, path):
        kind = TRANSFORMATIONS.get(name, key=key_text((name,)))
    if isinstance(keys, str):
        document = document.replaced((*path, name), {"tasks": keys})
    return ScheduleStep(name, validate(kind, document, prefix=(*path, name)))


def written(steps: Sequence[ScheduleStep]) -> tuple[dict[str, Any], ...] | None:
    """Transformations in the form of a scenario, with all defaults; None without transformations."""
    return (
        tuple({s.name: s.transformation.model_dump(mode="json", exclude_none=True) for s in [step]} for step in steps)
        or None
    )


def transformed(
    resolved: ResolvedScenario, graph: TaskGraph, machine: Machine
) -> tuple[TaskGraph, tuple[Applied, ...]]:
    """The task graph of a scenario after its transformations, and the changes of each transformation.

    Raises:
        InputError: a transformation cannot be applied to the graph; the error names its line.
    """
    given = resolved.scenario.transform
    if not given:
        return graph, ()
    with located(resolved.document):
        return applied(graph, _steps_of(given), groups_of(machine), key_text(TRANSFORM))


def tasks_again(applied_steps: Sequence[Applied]) -> frozenset[str]:
    """Names of the tasks that run again just before their results are needed, so the results are not kept."""
    changes = [each.changed for each in applied_steps if each.changed.apart]
    return frozenset(name for changed in changes for names in changed.again.values() for name in names)


def schedule_notes(workload: Workload, applied_steps: Sequence[Applied]) -> Iterator[str]:
    """Warnings on effects of transformations that results leave out."""
    yield from dict.fromkeys(note for each in applied_steps for note in each.changed.notes)
    if any(each.changed.again for each in applied_steps):
        note = workload.memory_note() if isinstance(workload, RepeatingWorkload) else UNCHANGED_MEMORY
        if note is not None:
            yield note


def schedule_rows(applied_steps: Sequence[Applied]) -> list[dict[str, Any]]:
    """The transformations with their changes, for ``summary.json``."""
    return [each.to_dict() for each in applied_steps]


def schedule_words(row: Mapping[str, Any]) -> str:
    """The changes of a transformation of `schedule_rows` in words."""
    counts = {key: value for key, value in row.items() if key not in ("transformation", "tasks") and value}
    return f"{row['tasks']}: {', '.join(_count_words(*count) for count in counts.items()) or 'nothing to save'}"


def _count_words(key: str, value: float) -> str:
    words = key.replace("_", " ")
    return f"{value:,.0f} {words}" if not key.startswith("bytes_") else f"{format_quantity(value, 'bytes')} {words[6:]}"


def _steps_of(given: Sequence[Mapping[str, Any]]) -> list[ScheduleStep]:
    return [
        ScheduleStep(name, TRANSFORMATIONS.get(name).model_validate(keys))
        for item in given
        for name, keys in item.items()
    ]


def groups_of(machine: Machine) -> Groups:
    """Groups of ranks of a machine: all ranks, the ranks of a node, and the ranks joined by NVLink."""
    topology = machine.topology
    return {"world": np.zeros_like(topology.node_of), "node": topology.node_of, "domain": topology.domain_of}
