"""Ranks that do the same at the same times: one column of each class is evaluated for all of its ranks.

Ranks of a group are alike if their private tasks take as long in every iteration, and their other tasks are in the same
instances, which they leave at the same phase. Then their times are equal: a task starts when the last of the rank's own
inputs ends, a private task ends its duration later, and an instance releases its members by phase, whoever they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.engine.instances import Membership, PrivateTimes
from simulator.lowered import Activity, ConstantDurations, LoweredGroup, LoweredProgram
from simulator.operators import FloatArray
from simulator.program import IntArray
from simulator.rank_classes import RankClasses, classes_of


@dataclass(frozen=True, slots=True)
class Alike:
    """A program with one rank of each class, the first.

    Attributes:
        program: the program of these ranks.
        classes: classes of each group.
        private: durations of its private activity tasks, by group.
    """

    program: LoweredProgram
    classes: tuple[RankClasses, ...]
    private: tuple[PrivateTimes, ...]


def alike(program: LoweredProgram, membership: Membership, private: Sequence[PrivateTimes]) -> Alike:
    """The classes of a program's ranks; each rank has its own where durations vary between iterations."""
    releases = _releases(program, membership)
    classes = tuple(
        _classes(group, private[number], releases.get(number, ())) for number, group in enumerate(program.groups)
    )
    if all(each.are_single for each in classes):
        return Alike(program, classes, tuple(private))
    firsts = tuple(
        {task: durations[each.first] for task, durations in own.items()}
        for each, own in zip(classes, private, strict=True)
    )
    groups = tuple(_first_ranks(group, each) for group, each in zip(program.groups, classes, strict=True))
    leave_early = {number for number, activity in enumerate(program.activities) if activity.release_phase is not None}
    activities = [
        _of_ranks(activity, number, program, groups) if number in leave_early else activity
        for number, activity in enumerate(program.activities)
    ]
    return Alike(replace(program, groups=groups, activities=activities), classes, firsts)


def each_rank(program: LoweredProgram, private: Sequence[PrivateTimes]) -> Alike:
    """The program itself: each rank has a class of its own."""
    return Alike(program, tuple(RankClasses.each(group.rank_count) for group in program.groups), tuple(private))


def _classes(group: LoweredGroup, private: PrivateTimes, releases: Sequence[IntArray]) -> RankClasses:
    if not isinstance(group.durations, ConstantDurations):
        return RankClasses.each(group.rank_count)
    shared = np.array([task not in private for task in group.activity_tasks.tolist()], dtype=np.bool_)
    rows = [*_duration_rows(group.durations), *private.values(), *group.instances[shared], *releases]
    return classes_of(group.rank_count, rows)


def _duration_rows(durations: ConstantDurations) -> Iterator[IntArray | FloatArray]:
    """Rows in which ranks with other durations differ."""
    if durations.classes is None:
        yield from durations.values
    else:
        yield durations.classes.of_rank


def _releases(program: LoweredProgram, membership: Membership) -> dict[int, list[IntArray]]:
    """Rows ``[P]`` of the phases after which ranks leave an instance before its end, by group."""
    found: dict[int, list[IntArray]] = {}
    for parts in membership.parts:
        for part in parts:
            if part.release is not None:
                row = np.full(program.groups[part.group].rank_count, -1, dtype=np.int64)
                row[part.members] = part.release
                found.setdefault(part.group, []).append(row)
    return found


def _first_ranks(group: LoweredGroup, classes: RankClasses) -> LoweredGroup:
    """The group of the first rank of each class."""
    if classes.are_single or not isinstance(group.durations, ConstantDurations):
        return group
    values, known = group.durations.values, group.durations.classes
    column = classes.first if known is None else known.of_rank[classes.first]
    return replace(
        group,
        ranks=group.ranks[classes.first],
        durations=ConstantDurations(values if values.shape[1] == 1 else values[:, column]),
        instances=group.instances[:, classes.first],
    )


def _of_ranks(activity: Activity, number: int, program: LoweredProgram, groups: Sequence[LoweredGroup]) -> Activity:
    """An activity whose members are the ranks of ``groups``, out of the program's."""
    if activity.release_phase is None:
        return activity
    places = np.searchsorted(_members(program.groups, number), _members(groups, number))
    return replace(activity, release_phase=activity.release_phase[places])


def _members(groups: Sequence[LoweredGroup], number: int) -> IntArray:
    """Members of an instance in rank order."""
    return np.sort(np.concatenate([g.ranks[np.any(g.instances == number, axis=0)] for g in groups]))
