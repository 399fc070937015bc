"""Recordings of ranks as a captured job: ranks that issue the same tasks share a program, equal works a number.

A rank that was not captured issues the tasks of the nearest captured rank below it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from trainer.capture.fusion import with_passed_bytes
from trainer.capture.groups import Members
from trainer.capture.recorder import RawTask
from trainer.capture.session import RankRecording
from workloads.captured.records import Collective, RankProgram, RecordedJob, RecordedTask, RecordedWork

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


def job_of(
    recordings: Sequence[RankRecording],
    *,
    name: str,
    source: str,
    torch: str,
    world_size: int,
    samples: int | None,
    tf32: bool,
) -> RecordedJob:
    """The job of captured ranks, which are ascending and begin with rank 0."""
    groups = _alike(recordings, world_size)
    tables = _Tables()
    captured = {recording.rank for recording in recordings}
    programs = [_program(recording, ranks, captured, tables) for recording, ranks in groups]
    called = {work.communicator for work in tables.works.values if isinstance(work, Collective)}
    communicators = _communicators(recordings)
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
        tf32=tf32,
    )


def signature(recording: RankRecording) -> Hashable:
    """Equal for ranks that issue the same tasks."""
    return tuple(_row(task) for task in recording.tasks)


def _row(task: RawTask) -> Hashable:
    waits = task.waits
    after = (tuple(sorted(waits.tasks)), tuple(sorted(waits.streams)))
    return task.operator, task.work, task.module, task.section, task.stream, after, task.launches, task.continues


def _alike(recordings: Sequence[RankRecording], world_size: int) -> list[tuple[RankRecording, tuple[int, ...]]]:
    """Recordings that differ, each with the ranks that issue its tasks."""
    first: dict[Hashable, RankRecording] = {}
    ranks: dict[Hashable, list[int]] = {}
    ends = [*(recording.rank for recording in recordings[1:]), world_size]
    for recording, end in zip(recordings, ends, strict=True):
        key = signature(recording)
        if key not in first or _peak(recording) > _peak(first[key]):
            first[key] = recording
        ranks.setdefault(key, []).extend(range(recording.rank, end))
    return [(first[key], tuple(ranks[key])) for key in first]


def _peak(recording: RankRecording) -> float:
    """Largest memory of the step, bytes."""
    return sum(recording.memory.peak.values())


def _communicators(recordings: Sequence[RankRecording]) -> dict[str, tuple[Members, ...]]:
    """Groups of each communicator, over all captured ranks."""
    found: dict[str, dict[Members, None]] = {}
    for recording in recordings:
        for name, groups in recording.groups.communicators():
            found.setdefault(name, {}).update(dict.fromkeys(groups))
    return {name: tuple(groups) for name, groups in found.items()}


def _program(recording: RankRecording, ranks: tuple[int, ...], captured: set[int], tables: _Tables) -> RankProgram:
    """The program of some ranks; streams without tasks are left out."""
    tasks = recording.tasks
    used = sorted({0, *(task.stream for task in tasks), *(s for task in tasks for s in task.waits.streams)})
    place = {stream: number for number, stream in enumerate(used)}
    works = with_passed_bytes(tasks, recording.kept)
    rows = tuple(_tasks(tasks, works, place, tables))
    return RankProgram(
        ranks=ranks,
        captured=tuple(rank for rank in ranks if rank in captured),
        streams=tuple(recording.streams[stream] for stream in used),
        tasks=rows,
        memory=recording.memory,
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
            continues=task.continues,
        )
