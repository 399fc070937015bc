"""Rebuilding an import from the rows of a file that this tool wrote and the programs in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inputs.errors import InputError
from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.lowered import PS_PER_S
from simulator.operators import Delay, Measured
from simulator.program import IntArray
from traces.description import TAIL, About, CollectiveWords, CopyWords, ProgramWords, work_of
from traces.imported import ABSENT, Gap, Imported, RankStep, absent_ranks
from traces.lanes import lane_name, lanes_of
from traces.measured import measured_run
from traces.merge import merge
from traces.rank_tasks import RankTasks, RankTasksBuilder
from traces.typed import MAX_RANKS

LONGEST_PS = 10**18
"""About twelve days: longer than any profile."""
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


def check(file: Path, about: About) -> None:
    """Check that a description makes sense in itself.

    Raises:
        InputError: it does not; the program and task are named.
    """
    sizes = [len(instance) for instance in about.communicators.values()]
    for number, program in enumerate(about.programs):
        where, count = f"program {number}", len(program.tasks)
        known = set(about.communicators)
        if not program.ranks or min(program.ranks) < 0 or max(program.ranks) >= min(sizes, default=MAX_RANKS):
            expected = f"ranks 0 to {min(sizes, default=MAX_RANKS) - 1}"
            raise InputError("has ranks that its communicators do not have", file=file, key=where, expected=expected)
        like = dict(zip(program.ranks, program.like, strict=False))
        if program.like and (len(program.like) != len(program.ranks) or any(like.get(of) != of for of in program.like)):
            expected = "for each rank one with rows of its own"
            raise InputError("has ranks whose rows are missing", file=file, key=f"{where}.like", expected=expected)
        for place, task in enumerate(program.tasks):
            work = task.work
            dependencies = all(0 <= dep < count and lag >= 0 for dep, lag in task.dependencies)
            before = not about.verbatim or all(dep < place and not lag for dep, lag in task.dependencies)
            sized = not isinstance(work, CollectiveWords | CopyWords) or _is_sized(work.bytes, len(program.ranks))
            named = not isinstance(work, CollectiveWords) or (
                work.communicator in known and _has_peers(about, program, work)
            )
            if not (0 <= task.stream < len(program.streams) and dependencies and before and sized and named):
                message = (
                    f"task {place} ({task.name[:60]!r}) has an impossible stream, dependency, size or communicator"
                )
                raise InputError(message, file=file, key=where, expected="those of dlrmsim's own files")


def _has_peers(about: About, program: ProgramWords, work: CollectiveWords) -> bool:
    """Whether each rank has one fraction for each member of the communicator, or no rank has fractions."""
    if work.peer_shares is None:
        return True
    instance = np.array(about.communicators[work.communicator])
    sizes = {int(np.count_nonzero(instance == instance[rank])) for rank in program.ranks}
    rows = work.peer_shares
    return len(rows) == len(program.ranks) and all({len(row)} == sizes and min(row) >= 0 for row in rows)


def _is_sized(size: float | list[float], ranks: int) -> bool:
    sizes = size if isinstance(size, list) else [size] * ranks
    return len(sizes) == ranks and all(0 <= own < float("inf") for own in sizes)


def import_rows(files: Sequence[Path], about: About, rows: Rows, name: str) -> Imported:
    """The import of rows with the programs they are of.

    Args:
        files: paths of the files, for messages.
        about: the programs, checked.
        rows: the times.
        name: name of the format.

    Raises:
        InputError: the programs are not those of the rows.
        ProgramError: ranks disagree on a collective.
    """
    if not len(rows.rank):
        raise InputError("has no rows of these ranks", file=files[0], expected="tasks of at least one rank")
    check_ranges(files[0], rows)
    origin = int(rows.start_ps.min())
    rows = Rows(rows.rank, rows.iteration, rows.start_ps - origin, rows.end_ps - origin)
    if np.any(rows.end_ps < rows.start_ps) or np.any(np.abs(rows.end_ps) > LONGEST_PS):
        message = "has tasks that end before they start, or times that cannot be"
        raise InputError(message, file=files[0], expected=f"ends after starts, within {LONGEST_PS:,} ps of the first")
    tasks = list(_tasks(files[0], about, rows))
    known = sum(len(program.ranks) for program in about.programs)
    sizes = [len(of) for of in about.communicators.values()]
    world_size = max([known, max(t.rank for t in tasks) + 1, *sizes])
    communicators = {group: _instances(of, world_size) for group, of in about.communicators.items()}
    merged = merge(tasks, communicators, world_size)
    kept = [Gap(what, count, tuple(of)) for what, count, of in about.gaps if what != ABSENT]
    return Imported(
        format=name,
        files=tuple(files),
        graph=merged.graph,
        world_size=world_size,
        measured=measured_run(merged),
        steps=tuple(_steps(files[0], about, rows, origin)),
        found={
            "rows": len(rows.rank),
            "iterations": len(np.unique(rows.iteration)),
            "tasks": sum(len(t.names) for t in tasks),
            "dependencies": sum(len(t.dep_task) for t in tasks),
        },
        gaps=(*absent_ranks([t.rank for t in tasks], world_size), *kept),
    )


def check_ranges(file: Path, rows: Rows) -> None:
    """Check that ranks, iterations and times are possible, so that none of them overflows.

    Raises:
        InputError: one is not; with its row.
    """
    ranges = (
        ("rank", rows.rank, 0, MAX_RANKS - 1),
        ("iteration", rows.iteration, 0, np.iinfo(np.int32).max),
        ("start_ps", rows.start_ps, -LONGEST_PS, LONGEST_PS),
        ("end_ps", rows.end_ps, -LONGEST_PS, LONGEST_PS),
    )
    for column, values, least, most in ranges:
        wrong = np.flatnonzero((values < least) | (values > most))
        if len(wrong):
            row, expected = int(wrong[0]), f"{least:,} to {most:,}"
            given = int(values[row])
            raise InputError("impossible value", file=file, key=f"row {row}: {column}", given=given, expected=expected)


def _instances(of: Sequence[int], world_size: int) -> IntArray:
    """Instance number of each rank ``[world_size]``, -1 where nothing is said."""
    instances = np.full(world_size, -1, dtype=np.int64)
    instances[: len(of)] = np.clip(np.array(of, dtype=np.float64), -1, world_size).astype(np.int64)
    return instances


def _steps(file: Path, about: About, rows: Rows, origin_ps: int) -> Iterator[RankStep]:
    """The steps that a profiler marked, else every recorded iteration from the end of the one before it."""
    ranks = np.unique(rows.rank).tolist()
    if about.steps:
        for rank, number, name, start, end in about.steps:
            if not 0 <= start <= end <= LONGEST_PS:
                message, expected = f"has a step {name[:60]!r} that ends before it starts", f"0 to {LONGEST_PS:,} ps"
                raise InputError(message, file=file, expected=expected)
            if rank in set(ranks):
                yield RankStep(rank, number, name, start - origin_ps, end - origin_ps)
        return
    ends = [origin_ps, *about.ends_ps]
    iterations = np.unique(rows.iteration).tolist()
    if iterations[0] < 0 or iterations[-1] + 1 >= len(ends) or not all(0 <= end <= LONGEST_PS for end in ends):
        expected = f"iterations 0 to {len(ends) - 2}, which end from 0 to {LONGEST_PS:,} ps"
        given = f"iterations {iterations[0]} to {iterations[-1]}"
        raise InputError("has iterations whose ends it does not say", file=file, given=given, expected=expected)
    for rank in ranks:
        for k in iterations:
            yield RankStep(rank, k, f"iteration {k}", max(ends[k] - origin_ps, 0), ends[k + 1] - origin_ps)


def _tasks(file: Path, about: About, rows: Rows) -> Iterator[RankTasks]:
    """The tasks of every rank in the file."""
    programs = {rank: (program, c) for program in about.programs for c, rank in enumerate(program.ranks)}
    order = np.lexsort((np.arange(len(rows.rank)), rows.iteration, rows.rank))
    bounds = np.flatnonzero(np.diff(rows.rank[order], prepend=-1))
    nothing = ProgramWords([], [], [])
    for begin, end in zip(bounds, [*bounds[1:], len(order)], strict=True):
        own = order[begin:end]
        rank, iterations = int(rows.rank[own[0]]), rows.iteration[own]
        program, column = programs.get(rank, (nothing, 0))
        times = {
            int(k): (rows.start_ps[own[iterations == k]], rows.end_ps[own[iterations == k]])
            for k in np.unique(iterations)
        }
        if any(len(starts) != len(program.tasks) for starts, _ in times.values()):
            expected = f"{len(program.tasks)} tasks in each iteration"
            raise InputError(f"has other tasks on rank {rank} than its programs", file=file, expected=expected)
        if about.verbatim and len(times) == 1:
            yield _kept(file, rank, program, column, *next(iter(times.values())))
        else:
            yield _completed(file, rank, program, column, times)


def _kept(file: Path, rank: int, program: ProgramWords, column: int, starts: IntArray, ends: IntArray) -> RankTasks:
    """The tasks of an import: their times already are those of the engine's equation."""
    seconds = ((ends - starts) / PS_PER_S).tolist()
    tasks = program.tasks
    return RankTasks(
        rank=rank,
        source=str(file),
        streams=tuple(program.streams),
        names=tuple(task.name for task in tasks),
        sections=tuple(task.section for task in tasks),
        stream_of=np.array([task.stream for task in tasks], dtype=np.int64),
        dep_ptr=np.cumsum([0, *(len(task.dependencies) for task in tasks)], dtype=np.int64),
        dep_task=np.array([dep for task in tasks for dep, _ in task.dependencies], dtype=np.int64),
        work=tuple(work_of(task.work, task.name, column, s) for task, s in zip(tasks, seconds, strict=True)),
        start_ps=starts,
        end_ps=ends,
    )


def _completed(
    file: Path, rank: int, program: ProgramWords, column: int, iterations: Mapping[int, tuple[IntArray, IntArray]]
) -> RankTasks:
    """The tasks of a run, with a delay where one starts later than its inputs end, and a tail behind collectives."""
    builder = RankTasksBuilder(rank, str(file))
    for stream in program.streams:
        builder.stream(stream)
    lanes = _lanes(program, iterations)
    made: dict[tuple[int, int], int] = {}
    last_on: dict[int, int] = {}
    for iteration, (starts, ends) in iterations.items():
        for task, words in enumerate(program.tasks):
            wanted = [(iteration - lag, dep) for dep, lag in words.dependencies]
            inputs = [made[input_of] for input_of in wanted if input_of in made]
            number = builder.stream(lane_name(program.streams[words.stream], lanes[iteration][task]))
            label, section = f"{words.name} @{iteration}", words.section
            before = [last_on[number]] if number in last_on else []
            known = max((builder.end_ps[t] for t in (*inputs, *before)), default=0)
            start, end = int(starts[task]), int(ends[task])
            if start > known or not (inputs or before):
                delay = Delay(max(start - known, 0) / PS_PER_S, _WITHOUT)
                inputs = [builder.task(f"delay of {label}", number, delay, known, start, section=section, after=inputs)]
            work = work_of(words.work, words.name, column, (end - start) / PS_PER_S)
            own = builder.task(label, number, work, start, end, section=section, after=inputs)
            if isinstance(work, CollectiveCall):
                tail = Measured(0.0, Category.COMM, TAIL)
                own = builder.task(f"{label} (tail)", number, tail, end, end, section=section, after=[own])
            made[iteration, task], last_on[number] = own, own
    return builder.build()


def _lanes(program: ProgramWords, iterations: Mapping[int, tuple[IntArray, IntArray]]) -> dict[int, list[int]]:
    """The lane of its stream that each task of each iteration has: 0 where none of a stream's overlap."""
    stream_of = np.array([task.stream for task in program.tasks], dtype=np.int64)
    starts = np.stack([times[0] for times in iterations.values()])
    ends = np.stack([times[1] for times in iterations.values()])
    lanes = np.zeros(starts.shape, dtype=np.int64)
    for stream in range(len(program.streams)):
        mine = np.broadcast_to(stream_of == stream, starts.shape)
        lanes[mine] = lanes_of(starts[mine], ends[mine])
    return {iteration: lanes[row].tolist() for row, iteration in enumerate(iterations)}
