"""Instances of activities: members and arrivals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from inputs.errors import ProgramError
from simulator.engine.members import Members, compact, run_begins
from simulator.engine.usage import UsageTable
from simulator.lowered import LoweredGroup, LoweredProgram
from simulator.program import IntArray

PrivateTimes: TypeAlias = Mapping[int, IntArray]
"""Durations ``[P]`` in ps of activity tasks that nothing can slow down, by task."""


@dataclass(frozen=True, slots=True)
class Part:
    """The members of an instance within one group, for one task."""

    group: int
    task: int
    members: Members
    release: IntArray | None  # phase after which each member goes on; None: the last


@dataclass(frozen=True, slots=True)
class Membership:
    """Members of every instance of a program.

    Attributes:
        size: members over all groups ``[I]``.
        parts: members of each instance by group.
        sole: (group, task) -> the one instance of all ranks of the group; absent when there are several.
    """

    size: IntArray
    parts: tuple[tuple[Part, ...], ...]
    sole: dict[tuple[int, int], int]


def find_members(program: LoweredProgram) -> Membership:
    """The members of every activity of ``program``.

    Raises:
        ProgramError: an instance number names no activity.
    """
    count = len(program.activities)
    size = np.zeros(count, dtype=np.int64)
    parts: list[list[Part]] = [[] for _ in range(count)]
    sole: dict[tuple[int, int], int] = {}
    for number, group in enumerate(program.groups):
        for task, instances in zip(group.activity_tasks.tolist(), group.instances, strict=True):
            if instances.max(initial=-1) >= count:
                raise ProgramError(f"task {group.names[task]!r} names activity {instances.max()} of {count}")
            for instance, members in _split(instances):
                release = _release(program, instance, group, members)
                parts[instance].append(Part(number, task, compact(members), release))
                size[instance] += len(members)
                if len(members) == group.rank_count:
                    sole[number, task] = instance
    return Membership(size, tuple(tuple(p) for p in parts), sole)


def _split(instances: IntArray) -> list[tuple[int, IntArray]]:
    """(instance, its members) for one task; ranks that take no part (-1) are left out."""
    if len(instances) and instances[0] >= 0 and bool((instances == instances[0]).all()):
        return [(int(instances[0]), np.arange(len(instances)))]
    order = np.argsort(instances, kind="stable")
    ordered = instances[order]
    order, ordered = order[ordered >= 0], ordered[ordered >= 0]
    begins = run_begins(ordered)
    return (
        [(int(ordered[b]), part) for b, part in zip(begins, np.split(order, begins[1:]), strict=True)]
        if len(order)
        else []
    )


def _release(program: LoweredProgram, instance: int, group: LoweredGroup, members: IntArray) -> IntArray | None:
    """Release phases of ``members``: given in rank order over all groups."""
    release = program.activities[instance].release_phase
    if release is None:
        return None
    everyone = np.sort(np.concatenate([g.ranks[np.any(g.instances == instance, axis=0)] for g in program.groups]))
    return release[np.searchsorted(everyone, group.ranks[members])]


def private_durations(program: LoweredProgram, membership: Membership, table: UsageTable) -> list[PrivateTimes]:
    """Activity tasks of each group that nothing can slow down, with their durations ``[P]`` in ps.

    They have one member everywhere, who stays to the end, all resources they use are used from one in-order stream
    of one rank only, and they take as long in every iteration.
    """
    found: list[dict[int, IntArray]] = [{} for _ in program.groups]
    if not np.any(membership.size == 1):
        return list(found)
    single = _single_lanes(program, membership, table)
    for number, group in enumerate(program.groups):
        for task, instances in zip(group.activity_tasks.tolist(), group.instances, strict=True):
            if not group.streams[int(group.stream_of[task])].in_order:
                continue
            present = instances[instances >= 0].tolist()
            if all(_is_private(i, program, membership, table, single) for i in present):
                alone = np.zeros(group.rank_count, dtype=np.int64)
                totals = [sum(s.latency_ps + s.work_ps for s in table.phases[i]) for i in present]
                alone[instances >= 0] = totals
                found[number][task] = alone
    return list(found)


def _single_lanes(program: LoweredProgram, membership: Membership, table: UsageTable) -> list[bool]:
    """Whether each resource class is used by one in-order stream of one rank only.

    Members of merged classes may be used by different ranks, which is no sharing; so the check is on resources.
    """
    lanes, streams = np.full(program.resource_count, -1), max(len(group.streams) for group in program.groups)
    shared = np.zeros(program.resource_count, dtype=np.bool_)
    for traffic in program.background:
        shared[traffic.resources] = True
    for instance, parts in enumerate(membership.parts):
        leaves_early = program.activities[instance].release_phase is not None
        lane = -1 if leaves_early else _lane(program, parts, streams)
        for phase in program.activities[instance].phases:
            used = phase.resources
            shared[used] |= (lanes[used] >= 0) & (lanes[used] != lane)
            shared[used] |= lane < 0
            lanes[used] = lane
    single = np.ones(table.class_count, dtype=np.bool_)
    single[table.class_of[shared]] = False
    return single.tolist()


def _lane(program: LoweredProgram, parts: tuple[Part, ...], streams: int) -> int:
    """A number for (rank, stream) of a single member, of at most ``streams``; -1 when there are several."""
    if len(parts) != 1 or not isinstance(parts[0].members, slice):
        return -1
    group, members = program.groups[parts[0].group], parts[0].members
    if members.stop - members.start > 1:
        return -1
    return int(group.ranks[members.start]) * streams + int(group.stream_of[parts[0].task])


def _is_private(
    instance: int, program: LoweredProgram, membership: Membership, table: UsageTable, single: list[bool]
) -> bool:
    if membership.size[instance] != 1 or program.activities[instance].release_phase is not None:
        return False
    rows = [phase.row for phase in table.phases[instance] if phase.row >= 0]
    return all(single[c] for row in rows for c in table.classes[table.ptr[row] : table.ptr[row + 1]].tolist())
