"""Recordings of ranks as a captured job: ranks that issue the same tasks share a program, works that are alike a number.

A rank that was not captured issues what the nearest captured rank before it does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from trainer.capture.fusion import with_passed_bytes
from trainer.capture.groups import Members
from trainer.capture.recorder import RawTask, is_message
from trainer.capture.session import RankRecording
from workloads.captured.records import Collective, MemoryPeak, RankProgram, RecordedJob, RecordedTask, RecordedWork

H = TypeVar("H", bound=Hashable)


@dataclass(slots=True)
class Numbered(Generic[H]):
    """Values in the order in which they first come, each with its number."""

    numbers: dict[H, int] = field(default_factory=dict)

    def of(self, value: H) -> int:
        """The number of a value."""
        return self.numbers.setdefault(value, len(self.numbers))

    @property
    def values(self) -> tuple[H, ...]:
        """All values by number."""
        return tuple(self.numbers)


@dataclass(slots=True)
class _Tables:
    """Names and works of a job, by number; the first module is the outermost one."""

    operators: Numbered[str] = field(default_factory=Numbered)
    works: Numbered[RecordedWork] = field(default_factory=Numbered)
    modules: Numbered[str] = field(default_factory=lambda: Numbered({"": 0}))
    sections: Numbered[str] = field(default_factory=Numbered)


@dataclass(frozen=True, slots=True)
class _RankTasks:
    """What a captured rank issues, with its works before numbering."""

    recording: RankRecording
    streams: tuple[str, ...]
    tasks: tuple[RawTask, ...]


def job_of(
    recordings: Sequence[RankRecording], *, name: str, source: str, torch: str, world_size: int, samples: int | None
) -> RecordedJob:
    """The job of captured ranks, which are ascending and begin with rank 0."""
    groups = _alike(recordings, world_size)
    if any(_sends_to_own_kind(recording, ranks) for recording, ranks in groups):
        groups = [(recording, (rank,)) for recording, ranks in groups for rank in ranks]
        groups.sort(key=lambda group: group[1])
    program_of = {rank: number for number, (_, ranks) in enumerate(groups) for rank in ranks}
    messages: dict[str, tuple[Members, ...]] = {}
    tables = _Tables()
    captured = {recording.rank for recording in recordings}
    programs = []
    for recording, ranks in groups:
        tasks = [_with_pair(task, ranks, program_of, messages) for task in recording.tasks]
        programs.append(_program(tasks, recording, ranks, captured, tables))
    called = {work.communicator for work in tables.works.values if isinstance(work, Collective)}
    communicators = {**_communicators(recordings), **messages}
    return RecordedJob(
        name=name,
        source=source,
        torch=torch,
        world_size=world_size,
        samples_per_rank=samples,
        communicators={key: members for key, members in communicators.items() if key in called},
        operators=tables.operators.values,
        modules=tables.modules.values,
        sections=tables.sections.values,
        works=tables.works.values,
        programs=tuple(programs),
    )


def signature(recording: RankRecording) -> Hashable:
    """Equal for ranks that issue the same tasks."""
    return tuple(_row(task) for task in recording.tasks)


def _row(task: RawTask) -> Hashable:
    waits = task.waits
    after = (tuple(sorted(waits.tasks)), tuple(sorted(waits.streams)))
    return task.operator, task.work, task.module, task.section, task.stream, after, task.launches, task.receives


def _alike(recordings: Sequence[RankRecording], world_size: int) -> list[tuple[RankRecording, tuple[int, ...]]]:
    """Recordings that differ, each with the ranks that issue its tasks."""
    first: dict[Hashable, RankRecording] = {}
    ranks: dict[Hashable, list[int]] = {}
    ends = [*(recording.rank for recording in recordings[1:]), world_size]
    for recording, end in zip(recordings, ends, strict=True):
        key = signature(recording)
        first.setdefault(key, recording)
        ranks.setdefault(key, []).extend(range(recording.rank, end))
    return [(first[key], tuple(ranks[key])) for key in first]


def _communicators(recordings: Sequence[RankRecording]) -> dict[str, tuple[Members, ...]]:
    """Groups of each communicator, over all captured ranks."""
    found: dict[str, dict[Members, None]] = {}
    for recording in recordings:
        for name, groups in recording.groups.communicators():
            found.setdefault(name, {}).update(dict.fromkeys(groups))
    return {name: tuple(groups) for name, groups in found.items()}


def _sends_to_own_kind(recording: RankRecording, ranks: Sequence[int]) -> bool:
    """Whether ranks send messages to ranks that issue the same tasks."""
    own, first = set(ranks), ranks[0]
    messages = (task.work for task in recording.tasks if is_message(task.work))
    return any(first + work.peer in own for work in messages if isinstance(work, Collective))


def _with_pair(
    task: RawTask, ranks: Sequence[int], program_of: Mapping[int, int], messages: dict[str, tuple[Members, ...]]
) -> RawTask:
    """A message as a call of pairs of ranks, which are noted; other tasks as they are."""
    work = task.work
    if not isinstance(work, Collective) or not is_message(work):
        return task
    other = program_of.get(ranks[0] + work.peer, -1)
    own = program_of[ranks[0]]
    sender, receiver = (other, own) if task.receives else (own, other)
    offset = -work.peer if task.receives else work.peer
    name = f"send_{sender}_{receiver}_{offset}".replace("-", "back_")
    messages[name] = tuple((min(rank, rank + work.peer), max(rank, rank + work.peer)) for rank in ranks)
    paired = msgspec.structs.replace(work, communicator=name, root=int(offset > 0), peer=0)
    return RawTask(
        "receive" if task.receives else "send",
        paired,
        task.module,
        task.section,
        task.stream,
        task.waits,
        task.launches,
        task.reads,
        task.writes,
        task.receives,
    )


def _program(
    tasks: Sequence[RawTask],
    recording: RankRecording,
    ranks: tuple[int, ...],
    captured: set[int],
    tables: _Tables,
) -> RankProgram:
    """The program of some ranks; streams without tasks are left out."""
    used = sorted({0, *(task.stream for task in tasks), *(s for task in tasks for s in task.waits.streams)})
    place = {stream: number for number, stream in enumerate(used)}
    works = with_passed_bytes(tasks, recording.kept)
    rows = tuple(_tasks(tasks, works, place, tables))
    return RankProgram(
        ranks=ranks,
        captured=tuple(rank for rank in ranks if rank in captured),
        streams=tuple(recording.streams[stream] for stream in used),
        tasks=rows,
        memory=_shared(recording.memory),
    )


def _tasks(
    tasks: Sequence[RawTask], works: Sequence[RecordedWork], place: Mapping[int, int], tables: _Tables
) -> Iterator[RecordedTask]:
    for task, work in zip(tasks, works, strict=True):
        yield RecordedTask(
            operator=tables.operators.of(task.operator),
            work=tables.works.of(work),
            module=tables.modules.of(task.module),
            section=tables.sections.of(task.section),
            stream=place[task.stream],
            after=tuple(sorted(task.waits.tasks)),
            after_streams=tuple(sorted(place[stream] for stream in task.waits.streams)),
            launches=task.launches,
        )


def _shared(memory: MemoryPeak) -> MemoryPeak:
    return memory
