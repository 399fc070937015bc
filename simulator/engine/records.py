"""What the engine is asked for and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from simulator.engine.sharing import SharingModel, bottleneck_fairness
from simulator.program import IntArray

if TYPE_CHECKING:
    from simulator.engine.controllers import Controller

StopRule = Callable[[Sequence[int]], bool]
"""Told the ends e_0..e_k in ps after iteration k; True ends the run."""

ShareObserver = Callable[[int, Sequence[int], Sequence[float]], None]
"""Told (now in ps, usage rows, speeds) at every solve; for tests of conservation."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How far to run and what to keep.

    Attributes:
        max_iterations: K, at least 1.
        stop: ends the run early, see `StopRule`.
        keep_last: how many of the last iterations to record for all ranks; None keeps every one.
        sharing: how activities share resources.
        controllers: by the name a controlled stream gives.
        observer: told about every solve.
    """

    max_iterations: int
    stop: StopRule | None = None
    keep_last: int | None = 2
    sharing: SharingModel = bottleneck_fairness
    controllers: Mapping[str, Controller] = field(default_factory=dict)
    observer: ShareObserver | None = None


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """Times of one program group in one iteration, each ``[T, P]`` in ps.

    The start of an activity task is the rank's arrival; waiting is the time from there to the last arrival, 0 for
    private tasks.
    """

    start_ps: IntArray
    end_ps: IntArray
    waiting_ps: IntArray


@dataclass(frozen=True, slots=True)
class ActivityTimes:
    """Last arrival and end of each activity ``[I]`` in ps; -1 where nobody took part."""

    begin_ps: IntArray
    end_ps: IntArray


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """Everything that happened in one iteration, in the order of `LoweredProgram.groups`."""

    iteration: int
    groups: tuple[GroupTimes, ...]
    activities: ActivityTimes


@dataclass(frozen=True, slots=True)
class RunResult:
    """Times of a run; the run starts at 0.

    Attributes:
        ranks: global rank numbers ``[W]``, groups one after the other.
        iteration_end_ps: e_k, latest end over all ranks and tasks of iteration k ``[K]``.
        rank_end_ps: latest end of each rank in iteration k ``[K, W]``.
        stream_busy_ps: per group, time each stream was occupied by tasks, waiting left out ``[K, streams, P]``.
        rank_waiting_ps: waiting for other ranks, all streams together ``[K, W]``.
        records: recorded iterations, ascending.
    """

    ranks: IntArray
    iteration_end_ps: IntArray
    rank_end_ps: IntArray
    stream_busy_ps: tuple[IntArray, ...]
    rank_waiting_ps: IntArray
    records: tuple[IterationRecord, ...]

    @property
    def iterations(self) -> int:
        """K, how many iterations ended."""
        return len(self.iteration_end_ps)


class Recorder:
    """Collects finished iterations: totals of all, full records of the last few."""

    def __init__(self, ranks: IntArray, keep_last: int | None) -> None:
        """Record ``keep_last`` iterations in full (None: all)."""
        self._ranks, self._keep = ranks, keep_last
        self._ends: list[int] = []
        self._rank_ends: list[IntArray] = []
        self._busy: list[list[IntArray]] = []
        self._waiting: list[IntArray] = []
        self._records: list[IterationRecord] = []

    @property
    def ends(self) -> list[int]:
        """Ends of the iterations so far in ps."""
        return self._ends

    def complete(self, iterations: int) -> bool:
        """Whether all ``iterations`` were recorded, none cut off by a stop rule."""
        return len(self._ends) == iterations

    def add(self, record: IterationRecord, streams: Sequence[IntArray]) -> None:
        """Take a finished iteration; ``streams`` gives the stream of each task ``[T]`` per group."""
        rank_ends = np.concatenate([g.end_ps.max(axis=0) for g in record.groups])
        self._ends.append(int(rank_ends.max()))
        self._rank_ends.append(rank_ends)
        self._waiting.append(np.concatenate([g.waiting_ps.sum(axis=0) for g in record.groups]))
        self._busy.append([_busy(g, of) for g, of in zip(record.groups, streams, strict=True)])
        self._records.append(record)
        if self._keep is not None:
            del self._records[: max(0, len(self._records) - self._keep)]

    def result(self) -> RunResult:
        """All that was recorded."""
        return RunResult(
            ranks=self._ranks,
            iteration_end_ps=np.array(self._ends, dtype=np.int64),
            rank_end_ps=np.stack(self._rank_ends),
            stream_busy_ps=tuple(np.stack(group) for group in zip(*self._busy, strict=True)),
            rank_waiting_ps=np.stack(self._waiting),
            records=tuple(self._records),
        )


def _busy(times: GroupTimes, stream_of: IntArray) -> IntArray:
    """Time each stream was occupied, waiting left out ``[streams, P]``."""
    streams = int(stream_of.max()) + 1 if len(stream_of) else 0
    busy = np.zeros((streams, times.start_ps.shape[1]), dtype=np.int64)
    for stream in range(streams):
        tasks = np.flatnonzero(stream_of == stream)
        for task in tasks:
            busy[stream] += times.end_ps[task]
            busy[stream] -= times.start_ps[task]
            busy[stream] -= times.waiting_ps[task]
    return busy
