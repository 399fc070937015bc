"""Programs as JSON values: the part of exported files beside their times, from which they can be imported again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from simulator.categories import Category
from simulator.collective_calls import CollectiveCall, CollectiveOp
from simulator.operators import Amount, Copy, Delay, Gemm, Measured
from simulator.precisions import Precision
from simulator.program import IntArray, Program, TaskGraph
from simulator.rank_classes import RankClasses
from simulator.work import Work, category_of
from traces.imported import Gap, RankStep

VERSION = 3
TAIL = "end of a collective"
"""Name of the work that is a member's part of a collective after the first member's end."""
WOKEN = "goes on after another thread"
"""Name of the work, or cause of the delay, of a host thread after another thread wakes it."""

Stored: TypeAlias = float | list[float]
"""An amount: of all ranks of a program, or of each."""


class CollectiveWords(msgspec.Struct, array_like=True, tag="collective"):
    """A collective."""

    op: CollectiveOp
    communicator: str
    bytes: Stored
    dtype: str
    peer_shares: list[list[float]] | None = None


class CopyWords(msgspec.Struct, array_like=True, tag="copy"):
    """A copy."""

    bytes: Stored
    direction: Literal["h2d", "d2h", "d2d"]


class DelayWords(msgspec.Struct, array_like=True, tag="delay"):
    """A delay."""

    cause: str


class MeasuredWords(msgspec.Struct, array_like=True, tag="measured"):
    """Anything else: its category, its name (empty: the task's) and the GEMM it is."""

    category: Category
    name: str = ""
    shape: tuple[int, int, int, Precision, int] | None = None


Words: TypeAlias = CollectiveWords | CopyWords | DelayWords | MeasuredWords


class TaskWords(msgspec.Struct, array_like=True):
    """A task; dependencies as (task, lag)."""

    name: str
    section: str
    stream: int
    work: Words
    dependencies: list[tuple[int, int]]


class ProgramWords(msgspec.Struct):
    """The program of one group of ranks.

    Attributes:
        like: rank whose rows stand for each of the ranks; empty: each has its own.
    """

    ranks: list[int]
    streams: list[str]
    tasks: list[TaskWords]
    like: list[int] = []


class About(msgspec.Struct):
    """Description from which a timeline can be imported again.

    Attributes:
        version: version of this format.
        verbatim: the programs are those of an import, whose times are those of the engine's equation.
        programs: programs of all ranks.
        communicators: instance number of each global rank by name.
        ends_ps: end of every iteration, recorded or not.
        steps: (rank, number, name, start, end) of an import, those its profiler marked.
        gaps: (what, count, ranks) of an import.
    """

    version: int
    verbatim: bool
    programs: list[ProgramWords]
    communicators: dict[str, list[int]]
    ends_ps: list[int]
    steps: list[tuple[int, int, str, int, int]]
    gaps: list[tuple[str, int, list[int]]]


def described(
    graph: TaskGraph,
    ends_ps: IntArray,
    steps: Sequence[RankStep] = (),
    gaps: Sequence[Gap] = (),
    classes: Sequence[RankClasses] = (),
) -> About:
    """Description from which a timeline can be imported again.

    Args:
        graph: the programs.
        ends_ps: end of every iteration, recorded or not.
        steps: steps that the profiler of an import marked.
        gaps: gaps of an import.
        classes: ranks of each program that share rows; none: each has its own.
    """
    known = classes or [RankClasses.each(program.rank_count) for program in graph.programs]
    return About(
        version=VERSION,
        verbatim=all(_is_of_import(program) for program in graph.programs),
        programs=[_described(program, own) for program, own in zip(graph.programs, known, strict=True)],
        communicators={name: instance.tolist() for name, instance in graph.communicators.items()},
        ends_ps=ends_ps.tolist(),
        steps=[(s.rank, s.number, s.name, s.start_ps, s.end_ps) for s in steps],
        gaps=[(gap.what, gap.count, list(gap.ranks)) for gap in gaps],
    )


def _is_of_import(program: Program) -> bool:
    """Whether a program is kept as it is, as imports are.

    Their iterations do not wait for each other, and a tail follows each collective on its stream.
    """
    if np.any(program.dep_lag):
        return False
    before: dict[int, int] = {}
    tailed = set()
    for task, (stream, work) in enumerate(zip(program.stream_of.tolist(), program.work, strict=True)):
        if isinstance(work, Measured) and work.name == TAIL and stream in before:
            tailed.add(before[stream])
        before[stream] = task
    return all(task in tailed for task, work in enumerate(program.work) if isinstance(work, CollectiveCall))


def _described(program: Program, classes: RankClasses) -> ProgramWords:
    columns = zip(program.names, program.sections, program.stream_of.tolist(), program.work, strict=True)
    return ProgramWords(
        ranks=program.ranks.tolist(),
        streams=[stream.name for stream in program.streams],
        tasks=[
            TaskWords(name, section, stream, words_of(work), program.dependencies(task))
            for task, (name, section, stream, work) in enumerate(columns)
        ],
        like=[] if classes.are_single else program.ranks[classes.first][classes.of_rank].tolist(),
    )


def words_of(work: Work) -> Words:
    """Description of work, without its time."""
    if isinstance(work, CollectiveCall):
        peers = None if work.peer_shares is None else work.peer_shares.tolist()
        return CollectiveWords(work.op, work.communicator, _stored(work.bytes * work.repeats), work.dtype, peers)
    if isinstance(work, Copy):
        return CopyWords(_stored(work.bytes), work.direction)
    if isinstance(work, Delay):
        return DelayWords(work.cause)
    if isinstance(work, Measured) and work.shape is not None:
        m, n, k = (round(float(np.mean(extent))) for extent in (work.shape.m, work.shape.n, work.shape.k))
        count = round(float(np.mean(work.shape.count)))
        return MeasuredWords(work.category, work.name, (m, n, k, work.shape.precision, count))
    return MeasuredWords(category_of(work), work.name if isinstance(work, Measured) else "")


def _stored(amount: Amount) -> Stored:
    return amount.tolist() if isinstance(amount, np.ndarray) else float(amount)


def work_of(words: Words, name: str, column: int, seconds: float) -> Work:
    """The work of `words_of` on the rank in a column of its program.

    Args:
        words: description of the task.
        name: name of the task, for work that has none of its own.
        column: the rank's place in the program.
        seconds: the task's measured length.

    Raises:
        IndexError: there are fewer amounts than ranks.
    """
    if isinstance(words, CollectiveWords):
        size = np.array([words.bytes[column]]) if isinstance(words.bytes, list) else words.bytes
        peers = None if words.peer_shares is None else np.array(words.peer_shares[column : column + 1])
        return CollectiveCall(words.op, words.communicator, size, words.dtype, peer_shares=peers)
    if isinstance(words, CopyWords):
        return Copy(words.bytes[column] if isinstance(words.bytes, list) else words.bytes, words.direction)
    if isinstance(words, DelayWords):
        return Delay(seconds, words.cause)
    shape = None
    if words.shape is not None:
        m, n, k, precision, count = words.shape
        shape = Gemm(m=m, n=n, k=k, precision=precision, count=count)
    return Measured(seconds, words.category, words.name or name, shape)
