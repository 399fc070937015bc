"""Usage of resources by phases: one table for the whole program, equal resources merged.

In a cluster most resources are used alike: the 4,096 NIC ports under two global collectives are one constraint, not
4,096. Resources that every phase, and background traffic, uses to the same share are merged into one *class*; fairness
then works on classes. Dominated classes are left out (`simulator.engine.sharing.stand_ins`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simulator.engine.controllers import RunAs
from simulator.engine.members import run_begins, run_lengths
from simulator.engine.sharing import stand_ins
from simulator.lowered import Activity, LoweredProgram, Phase
from simulator.operators import FloatArray
from simulator.program import IntArray

_GOLDEN_GAMMA = 0x9E3779B97F4A7C15  # increment of splitmix64
_MASK_64 = (1 << 64) - 1
MOST_COMPARISONS = 3e8
"""Limit of comparisons of shares for one table, 0.3 s; further dominated classes cost time, and no accuracy."""


@dataclass(frozen=True, slots=True)
class CompiledPhase:
    """A phase, ready to execute: wait ``latency_ps``, then ``work_ps`` of usage row ``row`` (-1: no work)."""

    latency_ps: int
    work_ps: int
    row: int


Compiled: TypeAlias = tuple[tuple[CompiledPhase, ...], ...]
"""Phases of each activity, ready to execute."""


@dataclass(frozen=True, slots=True)
class UsageTable:
    """Usage of resource classes by the rows (phases with work) of a program, in compressed rows.

    Attributes:
        steps: steps of each activity.
        ptr: ``[rows + 1]``; row r uses entries ``ptr[r]:ptr[r+1]``.
        classes: class number of each entry.
        usage: share of the class used when alone, of each entry.
        class_count: number of classes.
        class_of: class of each resource ``[L]``; unused resources share the class of the first one.
    """

    phases: Compiled
    ptr: IntArray
    classes: IntArray
    usage: FloatArray
    class_count: int
    class_of: IntArray

    def phases_as(self, run_as: RunAs) -> tuple[CompiledPhase, ...]:
        """Phases of what a controller lets an activity run as."""
        if run_as.activity is None:
            return (CompiledPhase(run_as.lead_ps, 0, -1),)
        phases = [
            CompiledPhase(phase.latency_ps, part_of(phase.work_ps, run_as.part), phase.row)
            for phase in self.phases[run_as.activity]
        ]
        phases[0] = replace(phases[0], latency_ps=phases[0].latency_ps + run_as.lead_ps)
        return tuple(phases)

    def of_phases(self, phases: Compiled) -> UsageTable:
        """The table of activities whose phases take the same shares, in other times."""
        return replace(self, phases=phases)

    def gather(self, rows: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Entries of several rows: counts ``[rows]``, classes and usage one row after the other."""
        begin = self.ptr[rows]
        counts = self.ptr[rows + 1] - begin
        ends = np.cumsum(counts)
        entries = np.arange(ends[-1]) + np.repeat(begin - ends + counts, counts)
        return counts, self.classes[entries], self.usage[entries]


def part_of(work_ps: int, part: tuple[int, int]) -> int:
    """A part of some work, rounded up: none of it becomes nothing."""
    return -(-work_ps * part[0] // part[1])


def compiled_phases(activities: Sequence[Activity]) -> tuple[Compiled, list[Phase]]:
    """Phases of activities, and the phases with work on resources, which have rows in the table."""
    phases: list[Phase] = []
    return tuple(_compiled(activity, phases) for activity in activities), phases


def usage_of(compiled: Compiled, phases: Sequence[Phase], program: LoweredProgram) -> UsageTable:
    """The usage table of a lowered program, from its `compiled_phases`."""
    taken = [Phase(0, 1, b.resources, np.full(len(b.resources), b.share)) for b in program.background]
    alike = {_arrays(phase): phase for phase in phases}  # calls of one size are lowered once
    first, class_of = _merge([*alike.values(), *taken], program.resource_count)
    is_first = np.zeros(program.resource_count, dtype=np.bool_)
    is_first[first] = True
    kept = {arrays: is_first[phase.resources] for arrays, phase in alike.items()}
    row = {arrays: class_of[phase.resources[kept[arrays]]] for arrays, phase in alike.items()}
    share = {arrays: phase.usage[kept[arrays]] for arrays, phase in alike.items()}
    rows = [_arrays(phase) for phase in phases]
    whole = UsageTable(
        phases=compiled,
        ptr=np.cumsum([0, *(len(row[arrays]) for arrays in rows)]),
        classes=np.concatenate([row[arrays] for arrays in rows]) if rows else np.zeros(0, dtype=np.int64),
        usage=np.concatenate([share[arrays] for arrays in rows]) if rows else np.zeros(0),
        class_count=len(first),
        class_of=class_of,
    )
    varying = [class_of[traffic.resources] for traffic in program.background]
    return _without_dominated(whole, np.concatenate(varying) if varying else np.zeros(0, dtype=np.int64))


def _arrays(phase: Phase) -> tuple[int, int]:
    """Identity of the arrays of a phase's shares."""
    return id(phase.resources), id(phase.usage)


def _without_dominated(table: UsageTable, varying: IntArray) -> UsageTable:
    """A table without dominated classes; ``varying`` classes stay."""
    stands = np.arange(table.class_count)
    row_of = np.repeat(np.arange(len(table.ptr) - 1), np.diff(table.ptr))
    by_class = np.argsort(table.classes, kind="stable")
    counts = np.bincount(table.classes, minlength=table.class_count)
    begin = np.cumsum(counts) - counts
    column = np.zeros(table.class_count, dtype=np.uint64)
    np.add.at(column, table.classes, _mix(row_of.astype(np.uint64) + np.uint64(1)))
    column[varying] = 0
    _, set_of = np.unique(column, return_inverse=True)
    order = np.argsort(set_of, kind="stable")
    begins = run_begins(set_of[order])
    comparisons = MOST_COMPARISONS
    for at, size in zip(begins.tolist(), run_lengths(begins, len(order)).tolist(), strict=True):
        same = order[at : at + size]
        users = counts[same[0]]
        if size == 1 or column[same[0]] == 0 or np.any(counts[same] != users):
            continue
        entries = by_class[begin[same][:, None] + np.arange(users)]
        if np.all(row_of[entries] == row_of[entries[0]]):
            stands[same] = same[stand_ins(table.usage[entries], comparisons)]
            comparisons -= min(comparisons, entries.size * len(np.unique(stands[same])))
    kept = stands == np.arange(table.class_count)
    if kept.all():
        return table
    number = np.cumsum(kept) - 1
    stays = kept[table.classes]
    return replace(
        table,
        ptr=np.concatenate([[0], np.cumsum(stays)])[table.ptr],
        classes=number[table.classes[stays]],
        usage=table.usage[stays],
        class_count=int(kept.sum()),
        class_of=number[stands[table.class_of]],
    )


def _compiled(activity: Activity, phases: list[Phase]) -> tuple[CompiledPhase, ...]:
    """Compiled phases of an activity, at least one; phases with work on resources are appended to ``phases``."""
    compiled = []
    for phase in activity.phases:
        if phase.work_ps > 0 and len(phase.resources):
            compiled.append(CompiledPhase(phase.latency_ps, phase.work_ps, len(phases)))
            phases.append(phase)
        else:
            compiled.append(CompiledPhase(phase.latency_ps + phase.work_ps, 0, -1))
    return tuple(compiled) or (CompiledPhase(0, 0, -1),)  # a communicator of one rank


def _merge(phases: Sequence[Phase], resource_count: int) -> tuple[IntArray, IntArray]:
    """First resource of each class and the class of each resource ``[L]``.

    Candidates are found by hashing each resource's column and then compared exactly; on a collision of hashes nothing
    is merged.
    """
    column = np.zeros(resource_count, dtype=np.uint64)
    for row, phase in enumerate(phases):
        salt = np.uint64((row + 1) * _GOLDEN_GAMMA & _MASK_64)
        column[phase.resources] += _mix(salt ^ np.ascontiguousarray(phase.usage).view(np.uint64))
    _, first, class_of = np.unique(column, return_index=True, return_inverse=True)
    order = np.argsort(first)  # classes in the order of their first resource
    first, class_of = first[order], np.argsort(order)[class_of]
    if _columns_agree(phases, first[class_of]):
        return first, class_of
    everyone = np.arange(resource_count)
    return everyone, everyone


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words (the finaliser of splitmix64, Steele et al. 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _columns_agree(phases: Sequence[Phase], stand_in: IntArray) -> bool:
    """Whether every phase uses each resource just as it uses the resource that stands in for it."""
    size = np.bincount(stand_in, minlength=len(stand_in))
    dense = np.zeros(len(stand_in))
    for phase in phases:
        dense[phase.resources] = phase.usage
        stands_in = stand_in[phase.resources] == phase.resources
        same = np.array_equal(dense[stand_in[phase.resources]], phase.usage)
        complete = size[phase.resources[stands_in]].sum() == len(phase.resources)
        dense[phase.resources] = 0.0
        if not (same and complete):
            return False
    return True
