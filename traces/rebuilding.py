"""From rows of a file of ours and the programs it carries to an import."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inputs.errors import InputError
from simulator.lowered import PS_PER_S
from simulator.operators import Category, CollectiveCall, Delay, Measured
from simulator.program import IntArray
from traces.description import TAIL, VERSION, work_of
from traces.imported import ABSENT, Gap, Imported, RankStep, absent_ranks
from traces.measured import measured_run
from traces.merge import merge
from traces.rank_tasks import RankTasks, RankTasksBuilder

_WITHOUT = "nothing recorded comes before it"


@dataclass(frozen=True, slots=True)
class Rows:
    """N rows of a file, those of a rank and iteration in the order of their tasks.

    Attributes:
        rank: ``[N]``.
        iteration: ``[N]``.
        start_ps: ``[N]``.
        end_ps: ``[N]``.
    """

    rank: IntArray
    iteration: IntArray
    start_ps: IntArray
    end_ps: IntArray


def check_version(file: Path, about: Any) -> None:
    """Check that what a file says of its programs is of this version.

    Raises:
        InputError: it is not.
    """
    if not isinstance(about, dict) or about.get("version") != VERSION:
        given = about.get("version") if isinstance(about, dict) else type(about).__name__
        raise InputError("has programs of another version", file=file, given=given, expected=str(VERSION))


def import_rows(files: Sequence[Path], about: Mapping[str, Any], rows: Rows, name: str) -> Imported:
    """The import of rows with the programs they are of.

    Args:
        files: where they stand, for messages.
        about: as `traces.description.described` makes it.
        rows: the times.
        name: of the format.

    Raises:
        InputError: the programs are not those of the rows.
        ProgramError: ranks disagree on a collective.
    """
    if not len(rows.rank):
        raise InputError("has no rows of these ranks", file=files[0])
    origin = int(rows.start_ps.min())
    rows = Rows(rows.rank, rows.iteration, rows.start_ps - origin, rows.end_ps - origin)
    try:
        communicators = {str(name): np.array(of, dtype=np.int64) for name, of in about["communicators"].items()}
        tasks = list(_tasks(files[0], about, rows))
        known = sum(len(program["ranks"]) for program in about["programs"])
        steps = tuple(_steps(about, rows, origin))
        told = [Gap(what, count, tuple(of)) for what, count, of in about["gaps"] if what != ABSENT]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        message = f"has programs that cannot be read: {type(error).__name__} {error}"
        raise InputError(message, file=files[0]) from None
    world_size = max([known, max(t.rank for t in tasks) + 1, *(len(of) for of in communicators.values())])
    merged = merge(tasks, {name: _members(of) for name, of in communicators.items()}, world_size)
    return Imported(
        format=name,
        files=tuple(files),
        graph=merged.graph,
        world_size=world_size,
        measured=measured_run(merged),
        steps=steps,
        found={
            "rows": len(rows.rank),
            "iterations": len(np.unique(rows.iteration)),
            "tasks": sum(len(t.names) for t in tasks),
            "dependencies": sum(len(t.dep_task) for t in tasks),
        },
        gaps=(*absent_ranks([t.rank for t in tasks], world_size), *told),
    )


def _members(instance_of: IntArray) -> tuple[int, ...] | None:
    return None if not instance_of.any() else tuple(np.flatnonzero(instance_of >= 0).tolist())


def _steps(about: Mapping[str, Any], rows: Rows, origin_ps: int) -> Iterator[RankStep]:
    """The steps that a profiler marked, else every recorded iteration from the end of the one before it."""
    ranks = np.unique(rows.rank).tolist()
    if about["steps"]:
        for rank, number, name, start, end in about["steps"]:
            if rank in set(ranks):
                yield RankStep(rank, number, name, start - origin_ps, end - origin_ps)
        return
    ends = [origin_ps, *about["ends_ps"]]
    for rank in ranks:
        for k in np.unique(rows.iteration).tolist():
            yield RankStep(rank, k, f"iteration {k}", max(ends[k] - origin_ps, 0), ends[k + 1] - origin_ps)


def _tasks(file: Path, about: Mapping[str, Any], rows: Rows) -> Iterator[RankTasks]:
    """The tasks of every rank in the file."""
    programs = {rank: (program, c) for program in about["programs"] for c, rank in enumerate(program["ranks"])}
    order = np.lexsort((np.arange(len(rows.rank)), rows.iteration, rows.rank))
    bounds = np.flatnonzero(np.diff(rows.rank[order], prepend=-1))
    for begin, end in zip(bounds, [*bounds[1:], len(order)], strict=True):
        own = order[begin:end]
        rank, iterations = int(rows.rank[own[0]]), rows.iteration[own]
        program, column = programs.get(rank, ({"tasks": [], "streams": []}, 0))
        times = {
            int(k): (rows.start_ps[own[iterations == k]], rows.end_ps[own[iterations == k]])
            for k in np.unique(iterations)
        }
        if any(len(starts) != len(program["tasks"]) for starts, _ in times.values()):
            raise InputError(f"has other tasks on rank {rank} than its programs", file=file)
        if about["verbatim"] and len(times) == 1:
            yield _kept(file, rank, program, column, *next(iter(times.values())))
        else:
            yield _completed(file, rank, program, column, times)


def _kept(
    file: Path, rank: int, program: Mapping[str, Any], column: int, starts: IntArray, ends: IntArray
) -> RankTasks:
    """The tasks of an import: their times already are those of the engine's equation."""
    names, sections, streams, words, dependencies = zip(*program["tasks"], strict=True)
    lengths = (ends - starts).tolist()
    return RankTasks(
        rank=rank,
        source=str(file),
        streams=tuple(program["streams"]),
        names=tuple(names),
        sections=tuple(sections),
        stream_of=np.array(streams, dtype=np.int64),
        dep_ptr=np.cumsum([0, *(len(d) for d in dependencies)], dtype=np.int64),
        dep_task=np.array([task for own in dependencies for task, _ in own], dtype=np.int64),
        work=tuple(work_of(w, n, column, length) for w, n, length in zip(words, names, lengths, strict=True)),
        start_ps=starts,
        end_ps=ends,
    )


def _completed(
    file: Path, rank: int, program: Mapping[str, Any], column: int, iterations: Mapping[int, tuple[IntArray, IntArray]]
) -> RankTasks:
    """The tasks of a run, with a delay where one starts later than its inputs end, and a tail behind collectives."""
    builder = RankTasksBuilder(rank, str(file))
    numbers = [builder.stream(stream) for stream in program["streams"]]
    made: dict[tuple[int, int], int] = {}
    last_on: dict[int, int] = {}
    for iteration, (starts, ends) in iterations.items():
        for task, (name, section, stream, words, dependencies) in enumerate(program["tasks"]):
            inputs = [made[iteration - lag, dep] for dep, lag in dependencies if (iteration - lag, dep) in made]
            number, label = numbers[stream], f"{name} @{iteration}"
            before = [last_on[number]] if number in last_on else []
            known = max((builder.end_ps[t] for t in (*inputs, *before)), default=0)
            start, end = int(starts[task]), int(ends[task])
            if start > known or not (inputs or before):
                delay = Delay(max(start - known, 0) / PS_PER_S, _WITHOUT)
                inputs = [builder.task(f"delay of {label}", number, delay, known, start, section=section, after=inputs)]
            work = work_of(words, name, column, end - start)
            own = builder.task(label, number, work, start, end, section=section, after=inputs)
            if isinstance(work, CollectiveCall):
                tail = Measured(0.0, Category.COMM, TAIL)
                own = builder.task(f"{label} (tail)", number, tail, end, end, section=section, after=[own])
            made[iteration, task], last_on[number] = own, own
    return builder.build()
