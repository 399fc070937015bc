"""Our own timeline.parquet: the programs that stand in its metadata, and importing a file of a run or an import."""

from __future__ import annotations

import json
import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inputs.errors import InputError
from simulator.analysis.timeline import COLUMNS
from simulator.lowered import PS_PER_S
from simulator.operators import Category, CollectiveCall, Delay, Measured, Work, category_of
from simulator.program import IntArray, Program, TaskGraph
from traces.imported import Gap, Imported, RankStep, absent_ranks
from traces.measured import measured_run
from traces.merge import merge
from traces.rank_tasks import RankTasks, RankTasksBuilder
from traces.source import require_file

KEY = b"dlrmsim.programs"
VERSION = 1
_WITHOUT = "nothing recorded comes before it"


def program_metadata(
    graph: TaskGraph, ends_ps: IntArray, steps: Sequence[RankStep] = (), gaps: Sequence[Gap] = ()
) -> dict[bytes, bytes]:
    """What a timeline needs to be imported again, for the file's schema: tasks, dependencies, communicators.

    Args:
        graph: the programs.
        ends_ps: end of every iteration, recorded or not.
        steps: of an import, those its profiler marked.
        gaps: of an import.
    """
    about = {
        "version": VERSION,
        "programs": [_described(program) for program in graph.programs],
        "communicators": {name: instance.tolist() for name, instance in graph.communicators.items()},
        "ends_ps": ends_ps.tolist(),
        "steps": [[s.rank, s.number, s.name, s.start_ps, s.end_ps] for s in steps],
        "gaps": [[gap.what, gap.count, gap.ranks] for gap in gaps],
    }
    return {KEY: b85encode(zlib.compress(json.dumps(about, separators=(",", ":")).encode(), level=6))}


def _described(program: Program) -> dict[str, Any]:
    return {
        "ranks": program.ranks.tolist(),
        "tasks": [
            [name, section, program.streams[stream].name, _work_words(work), program.dependencies(task)]
            for task, (name, section, stream, work) in enumerate(
                zip(program.names, program.sections, program.stream_of.tolist(), program.work, strict=True)
            )
        ],
    }


def _work_words(work: Work) -> list[Any]:
    """[category], of a collective also op, communicator, mean bytes, dtype; of a delay its cause."""
    category = str(category_of(work))
    if isinstance(work, CollectiveCall):
        return [category, work.op, work.communicator, float(np.mean(work.bytes)), work.dtype]
    return [category, work.cause] if isinstance(work, Delay) else [category]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one rank and iteration in task order ``[T]``."""

    start_ps: IntArray
    end_ps: IntArray
    waiting_ps: IntArray


def import_parquet(files: Sequence[Path], ranks: Sequence[int] | None = None) -> Imported:
    """Import the timeline of one run.

    Args:
        files: one file.
        ranks: ranks to keep; default: all that were recorded.

    Raises:
        InputError: several files, or one that is no timeline of ours with its programs.
    """
    if len(files) != 1:
        raise InputError("is one run; import one at a time", file=files[0], given=f"{len(files)} files")
    file = files[0]
    about, table = _read(file, ranks)
    communicators = {str(name): np.array(of, dtype=np.int64) for name, of in about["communicators"].items()}
    world_size = max([sum(len(p["ranks"]) for p in about["programs"]), *(len(of) for of in communicators.values())])
    columns = {
        name: table.column(name).to_numpy() for name in ("rank", "iteration", "start_ps", "end_ps", "waiting_ps")
    }
    if not len(columns["rank"]):
        raise InputError("has no rows of these ranks", file=file)
    columns["start_ps"], origin = columns["start_ps"] - columns["start_ps"].min(), int(columns["start_ps"].min())
    columns["end_ps"] = columns["end_ps"] - origin
    tasks = list(_tasks(file, about, columns))
    members = {name: _members(of) for name, of in communicators.items()}
    merged = merge(tasks, members, world_size)
    told = [Gap(what, count, tuple(of)) for what, count, of in about["gaps"] if "without a trace" not in what]
    return Imported(
        format="dlrmsim timeline",
        files=(file,),
        graph=merged.graph,
        world_size=world_size,
        measured=measured_run(merged),
        steps=_steps(about, columns, origin),
        found={
            "rows": len(columns["rank"]),
            "iterations": len(np.unique(columns["iteration"])),
            "tasks": sum(len(t.names) for t in tasks),
            "dependencies": sum(len(t.dep_task) for t in tasks),
        },
        gaps=(*absent_ranks([t.rank for t in tasks], world_size), *told),
    )


def _steps(about: Mapping[str, Any], columns: Mapping[str, IntArray], origin_ps: int) -> tuple[RankStep, ...]:
    """The steps that a profiler marked, else every recorded iteration from the end of the one before it."""
    ranks = np.unique(columns["rank"]).tolist()
    if about["steps"]:
        steps = (RankStep(r, k, name, start - origin_ps, end - origin_ps) for r, k, name, start, end in about["steps"])
        return tuple(step for step in steps if step.rank in set(ranks))
    ends = [origin_ps, *about["ends_ps"]]
    return tuple(
        RankStep(rank, k, f"iteration {k}", max(ends[k] - origin_ps, 0), ends[k + 1] - origin_ps)
        for rank in ranks
        for k in np.unique(columns["iteration"]).tolist()
    )


def _read(file: Path, ranks: Sequence[int] | None) -> tuple[Mapping[str, Any], Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    require_file(file)
    try:
        stored = (pq.read_schema(file).metadata or {}).get(KEY)
        filters = None if ranks is None else [("rank", "in", list(ranks))]
        table = pq.read_table(file, filters=filters)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"is no Parquet file that can be read: {str(error)[:200]}", file=file) from None
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing or stored is None:
        raise InputError(
            "has no programs in its metadata" if stored is None else f"has no column {missing[0]}",
            file=file,
            expected="a timeline.parquet that dlrmsim run or dlrmsim import wrote",
        )
    try:
        about = json.loads(zlib.decompress(b85decode(stored)))
    except (ValueError, zlib.error) as error:
        raise InputError(f"has programs that cannot be read: {error}", file=file) from None
    if about.get("version") != VERSION:
        raise InputError(
            "has programs of another version", file=file, given=about.get("version"), expected=str(VERSION)
        )
    return about, table


def _members(instance_of: IntArray) -> tuple[int, ...] | None:
    return None if not instance_of.any() else tuple(np.flatnonzero(instance_of >= 0).tolist())


def _tasks(file: Path, about: Mapping[str, Any], columns: Mapping[str, IntArray]) -> Iterator[RankTasks]:
    """The tasks of every rank in the file."""
    described = {rank: program["tasks"] for program in about["programs"] for rank in program["ranks"]}
    order = np.lexsort((np.arange(len(columns["rank"])), columns["iteration"], columns["rank"]))
    bounds = np.flatnonzero(np.diff(columns["rank"][order], prepend=-1))
    for begin, end in zip(bounds, [*bounds[1:], len(order)], strict=True):
        rows = order[begin:end]
        rank = int(columns["rank"][rows[0]])
        iterations = columns["iteration"][rows]
        program = described.get(rank, [])
        by_iteration = {
            int(k): _Rows(*(columns[name][rows[iterations == k]] for name in ("start_ps", "end_ps", "waiting_ps")))
            for k in np.unique(iterations)
        }
        if any(len(own.start_ps) != len(program) for own in by_iteration.values()):
            raise InputError(f"has other tasks on rank {rank} than its programs", file=file)
        yield _rank(file, rank, program, by_iteration)


def _rank(file: Path, rank: int, program: Sequence[Any], iterations: Mapping[int, _Rows]) -> RankTasks:
    builder = RankTasksBuilder(rank, str(file))
    made: dict[tuple[int, int], int] = {}
    last_on: dict[str, int] = {}
    for iteration, rows in iterations.items():
        for task, (name, section, stream, words, dependencies) in enumerate(program):
            inputs = [made[iteration - lag, dep] for dep, lag in dependencies if (iteration - lag, dep) in made]
            before = [last_on[stream]] if stream in last_on else []
            known = max((builder.end_ps[t] for t in (*inputs, *before)), default=0)
            start, end = int(rows.start_ps[task]), int(rows.end_ps[task])
            number, label = builder.stream(stream), f"{name} @{iteration}"
            if start > known or not (inputs or before):
                delay = Delay(max(start - known, 0) / PS_PER_S, _WITHOUT)
                inputs = [builder.task(f"delay of {label}", number, delay, known, start, section=section, after=inputs)]
            work = _work(words, name, end - start)
            own = builder.task(label, number, work, start, end, section=section, after=inputs)
            if isinstance(work, CollectiveCall):
                tail = Measured(0.0, Category.COMM, "end of a collective")
                own = builder.task(f"{label} (tail)", number, tail, end, end, section=section, after=[own])
            made[iteration, task], last_on[stream] = own, own
    return builder.build()


def _work(words: Sequence[Any], name: str, length_ps: int) -> Work:
    category, *more = words
    if category == Category.COMM and len(more) == 4:
        op, communicator, size, dtype = more
        return CollectiveCall(op, communicator, float(size), dtype)
    seconds = length_ps / PS_PER_S
    return (
        Delay(seconds, more[0]) if category == Category.IDLE and more else Measured(seconds, Category(category), name)
    )
