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
from traces.alike_ranks import AlikeRanks
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
    return merge_alike(AlikeRanks.each(ranks), communicators, world_size)


def merge_alike(blocks: Sequence[AlikeRanks], communicators: Mapping[str, IntArray], world_size: int) -> Merged:
    """Merge ranks that are alike, and ranks of other structures, into program groups; as `merge`."""
    _check_ranks(blocks, world_size)
    _check_agreement(blocks, communicators)
    groups: dict[Hashable, list[AlikeRanks]] = {}
    for block in sorted(blocks, key=lambda b: int(b.ranks.min())):
        groups.setdefault(_structure(block.tasks), []).append(block)
    same = [_Group.of(of) for of in groups.values()]
    graph = TaskGraph(tuple(group.program() for group in same), communicators)
    starts = tuple(group.columns([block.tasks.start_ps for block in group.blocks]) for group in same)
    ends = tuple(group.columns([block.tasks.end_ps for block in group.blocks]) for group in same)
    return Merged(graph, starts, ends)


def _check_ranks(blocks: Sequence[AlikeRanks], world_size: int) -> None:
    seen: dict[int, str] = {}
    for _, rank, source in sorted(
        trace for block in blocks for trace in zip(block.places, block.ranks.tolist(), block.sources, strict=True)
    ):
        if rank in seen:
            raise InputError(f"is of rank {rank}, and so is {seen[rank]}", file=source, expected=ONE_EACH)
        seen[rank] = source
        if rank >= world_size:
            raise InputError(f"is of rank {rank} of {world_size}", file=source, expected=f"a rank below {world_size}")


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
    _check_agreement(AlikeRanks.each(ranks), communicators)


@dataclass(frozen=True, slots=True)
class _Member:
    """A rank whose calls stand for the calls of all ranks that are alike."""

    rank: int
    source: str
    names: tuple[str, ...]


def _check_agreement(blocks: Sequence[AlikeRanks], communicators: Mapping[str, IntArray]) -> None:
    calls = [calls_by_communicator(block.tasks.work) for block in blocks]
    for group, instances in communicators.items():
        members = []
        for block, by_group in zip(blocks, calls, strict=True):
            made = by_group.get(group, [])
            _, first = np.unique(instances[block.ranks], return_index=True)
            for n in first.tolist():
                member = _Member(int(block.ranks[n]), block.sources[n], block.tasks.names)
                members.append((block.places[n], int(instances[member.rank]), member, made))
        own = []
        for _, instance, member, made in sorted(members, key=lambda of: of[0]):
            if instance >= 0:
                own.append((instance, member, made))
            elif made:
                inside = np.flatnonzero(instances >= 0)[:8].tolist()
                raise ProgramError(
                    f"rank {member.rank} calls {member.names[made[0][0]]} on group {group!r} of {inside}",
                    file=member.source,
                    expected="calls on groups of the rank",
                )
        for found in disagreements(own):
            raise ProgramError(_in_words(group, found), file=found.members[1].source, expected=SAME_CALLS)


def _in_words(group: str, found: Disagreement[_Member]) -> str:
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


@dataclass(frozen=True, slots=True)
class _Group:
    """Blocks of ranks whose tasks have one structure.

    Attributes:
        blocks: sorted by their lowest rank.
        ranks: global ranks, ascending ``[P]``.
        order: place of each of them in the blocks, one after the other ``[P]``.
    """

    blocks: Sequence[AlikeRanks]
    ranks: IntArray
    order: IntArray

    @classmethod
    def of(cls, blocks: Sequence[AlikeRanks]) -> _Group:
        ranks = np.concatenate([block.ranks for block in blocks])
        order = np.argsort(ranks)
        return cls(blocks, ranks[order], order)

    def columns(self, own: Sequence[IntArray]) -> IntArray:
        """An array of each block ``[T]``, for each of its ranks ``[T, P]``."""
        counts = [len(block.ranks) for block in self.blocks]
        return np.repeat(np.stack(own, axis=1), counts, axis=1)[:, self.order]

    def program(self) -> Program:
        first, ranks = self.blocks[0].tasks, self.ranks
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
            work=tuple(self._work(task) for task in range(len(first.names))),
        )

    def _work(self, task: int) -> Work:
        """One operator with an amount per rank, where the ranks differ."""
        works = [block.tasks.work[task] for block in self.blocks]
        first = works[0]
        if len(self.ranks) == 1:
            return first
        if isinstance(first, Measured | Delay):
            return replace(first, seconds=self._amount([block.seconds_of(task) for block in self.blocks]))
        if isinstance(first, CollectiveCall):
            calls = [work for work in works if isinstance(work, CollectiveCall)]
            return replace(first, bytes=self._amount([call.bytes for call in calls]), peer_shares=self._peers(calls))
        if isinstance(first, Copy):
            return replace(first, bytes=self._amount([work.bytes for work in works]))  # type: ignore[union-attr]
        return first

    def _amount(self, values: Sequence[Amount]) -> Amount:
        """One number where the blocks agree on one, else the amount of each rank; a value is of each block."""
        if all(np.ndim(value) == 0 for value in values) and len(set(values)) == 1:
            return values[0]
        of_ranks = [np.broadcast_to(v, len(b.ranks)) for v, b in zip(values, self.blocks, strict=True)]
        return np.concatenate(of_ranks, dtype=np.float64)[self.order]

    def _peers(self, calls: Sequence[CollectiveCall]) -> FloatArray | None:
        """Rows of `CollectiveCall.peer_shares` of all ranks; ranks without shares have even ones."""
        known = [call.peer_shares for call in calls if call.peer_shares is not None]
        if not known:
            return None
        even = np.full((1, known[0].shape[1]), 1.0 / known[0].shape[1])
        rows = [even if call.peer_shares is None else call.peer_shares for call in calls]
        of_ranks = [np.repeat(row, len(b.ranks), axis=0) for row, b in zip(rows, self.blocks, strict=True)]
        return np.concatenate(of_ranks)[self.order]


def _instance(members: Sequence[int] | None, world_size: int) -> IntArray:
    if members is None:
        return np.zeros(world_size, dtype=np.int64)
    instance = np.full(world_size, -1, dtype=np.int64)
    instance[[rank for rank in members if rank < world_size]] = 0
    return instance
