"""A task graph made from the tasks of every rank: ranks whose programs have one structure become one program group."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inputs.errors import InputError, ProgramError
from simulator.agreement import Disagreement, calls_by_communicator, disagreements
from simulator.collective_calls import CollectiveCall
from simulator.operators import Amount, Copy, Delay, FloatArray, Measured
from simulator.program import IntArray, Program, Stream, TaskGraph
from simulator.work import Work
from traces.rank_tasks import RankTasks
from traces.typed import ONE_EACH, SAME_CALLS


@dataclass(frozen=True, slots=True)
class Merged:
    """A task graph with the measured times of its groups.

    Attributes:
        graph: the programs, and the communicators their collectives use.
        start_ps: measured starts, one ``[T, P]`` per program.
        end_ps: measured ends, one ``[T, P]`` per program.
    """

    graph: TaskGraph
    start_ps: tuple[IntArray, ...]
    end_ps: tuple[IntArray, ...]


def merge(ranks: Sequence[RankTasks], communicators: Mapping[str, IntArray], world_size: int) -> Merged:
    """Merge ranks into program groups.

    Args:
        ranks: tasks of each rank.
        communicators: instance of each rank, -1 where it is in none, by name ``[world_size]``.
        world_size: ranks of the job, more than ``ranks`` when some have no trace.

    Raises:
        InputError: two traces of one rank, or one beyond ``world_size``.
        ProgramError: ranks disagree on the collectives of a group; both files are named.
    """
    _check_ranks(ranks, world_size)
    check_agreement(ranks, communicators)
    groups: dict[Hashable, list[RankTasks]] = {}
    for tasks in sorted(ranks, key=lambda t: t.rank):
        groups.setdefault(_structure(tasks), []).append(tasks)
    same = list(groups.values())
    graph = TaskGraph(tuple(_program(group) for group in same), communicators)
    starts = tuple(np.stack([t.start_ps for t in group], axis=1) for group in same)
    return Merged(graph, starts, tuple(np.stack([t.end_ps for t in group], axis=1) for group in same))


def _check_ranks(ranks: Sequence[RankTasks], world_size: int) -> None:
    seen: dict[int, str] = {}
    for tasks in ranks:
        if tasks.rank in seen:
            raise InputError(
                f"is of rank {tasks.rank}, and so is {seen[tasks.rank]}", file=tasks.source, expected=ONE_EACH
            )
        seen[tasks.rank] = tasks.source
        if tasks.rank >= world_size:
            raise InputError(
                f"is of rank {tasks.rank} of {world_size}", file=tasks.source, expected=f"a rank below {world_size}"
            )


def groups_of(members: Mapping[str, Sequence[int] | None], world_size: int) -> dict[str, IntArray]:
    """Communicators of process groups, each with one instance, by name ``[world_size]``.

    Args:
        members: ranks of each process group by name; None: every rank of the job.
    """
    return {name: _instance(ranks, world_size) for name, ranks in members.items()}


def check_agreement(ranks: Sequence[RankTasks], communicators: Mapping[str, IntArray]) -> None:
    """Check that the ranks of each instance of a process group make the same calls in the same order.

    Args:
        communicators: as of `merge`.

    Raises:
        ProgramError: they do not; both files, ranks and calls are named.
    """
    calls = [calls_by_communicator(tasks.work) for tasks in ranks]
    for group, instances in communicators.items():
        own = []
        for tasks, by_group in zip(ranks, calls, strict=True):
            made = by_group.get(group, [])
            if (instance := int(instances[tasks.rank])) >= 0:
                own.append((instance, tasks, made))
            elif made:
                inside = np.flatnonzero(instances >= 0)[:8].tolist()
                raise ProgramError(
                    f"rank {tasks.rank} calls {tasks.names[made[0][0]]} on group {group!r} of {inside}",
                    file=tasks.source,
                    expected="calls on groups of the rank",
                )
        for found in disagreements(own):
            raise ProgramError(_in_words(group, found), file=found.members[1].source, expected=SAME_CALLS)


def _in_words(group: str, found: Disagreement[RankTasks]) -> str:
    a, b = found.members
    where = f"rank {b.rank} and rank {a.rank} ({a.source}) disagree on group {group!r}"
    if found.is_in_count:
        return f"{where}: {len(found.calls[1])} collectives here, {len(found.calls[0])} there"
    (task_a, x), (task_b, y) = (calls[found.number] for calls in found.calls)
    there = f"{a.names[task_a]} ({_said(x)}) there"
    return f"{where}: collective {found.number} is {b.names[task_b]} ({_said(y)}) here and {there}"


def _said(call: CollectiveCall) -> str:
    return f"{call.op} of {float(np.sum(call.bytes)):.0f} B, {call.dtype}"


def _structure(tasks: RankTasks) -> Hashable:
    """The part of a program that is equal within a group: everything but times and amounts."""
    arrays = (tasks.stream_of.tobytes(), tasks.dep_ptr.tobytes(), tasks.dep_task.tobytes())
    return tasks.streams, tasks.names, tasks.sections, arrays, tuple(_kind(work) for work in tasks.work)


def _kind(work: Work) -> Hashable:
    if isinstance(work, CollectiveCall):
        return work.op, work.communicator, work.dtype
    if isinstance(work, Measured):
        return work.category, work.name, work.shape
    if isinstance(work, Copy):
        return "copy", work.direction
    return ("delay", work.cause) if isinstance(work, Delay) else work


def _program(group: Sequence[RankTasks]) -> Program:
    first = group[0]
    ranks = np.array([t.rank for t in group], dtype=np.int64)
    return Program(
        name=f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}, {len(ranks)} of them",
        ranks=ranks,
        streams=tuple(Stream(name) for name in first.streams),
        names=first.names,
        sections=first.sections,
        stream_of=first.stream_of,
        dep_ptr=first.dep_ptr,
        dep_task=first.dep_task,
        dep_lag=np.zeros_like(first.dep_task),
        work=tuple(_merged_work(works) for works in zip(*(t.work for t in group), strict=True)),
    )


def _merged_work(works: Sequence[Work]) -> Work:
    """One operator with an amount per rank, where the ranks differ."""
    first = works[0]
    if len(works) == 1:
        return first
    if isinstance(first, Measured | Delay):
        return replace(first, seconds=_amount([work.seconds for work in works]))  # type: ignore[union-attr]
    if isinstance(first, CollectiveCall):
        calls = [work for work in works if isinstance(work, CollectiveCall)]
        return replace(first, bytes=_amount([call.bytes for call in calls]), peer_shares=_peers(calls))
    if isinstance(first, Copy):
        return replace(first, bytes=_amount([work.bytes for work in works]))  # type: ignore[union-attr]
    return first


def _peers(calls: Sequence[CollectiveCall]) -> FloatArray | None:
    """Rows of `CollectiveCall.peer_shares` of all ranks; ranks without shares have even ones."""
    known = [call.peer_shares for call in calls if call.peer_shares is not None]
    if not known:
        return None
    even = np.full((1, known[0].shape[1]), 1.0 / known[0].shape[1])
    return np.concatenate([even if call.peer_shares is None else call.peer_shares for call in calls])


def _amount(values: Sequence[Amount]) -> Amount:
    if all(np.ndim(value) == 0 for value in values) and len(set(values)) == 1:
        return values[0]
    return np.array([float(np.sum(value)) for value in values])


def _instance(members: Sequence[int] | None, world_size: int) -> IntArray:
    if members is None:
        return np.zeros(world_size, dtype=np.int64)
    instance = np.full(world_size, -1, dtype=np.int64)
    instance[[rank for rank in members if rank < world_size]] = 0
    return instance
