"""Requests to the engine and its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from simulator.engine.memory import ProgramMemory
from simulator.engine.sharing import SharingModel, bottleneck_fairness
from simulator.program import IntArray
from simulator.rank_classes import RankClasses

if TYPE_CHECKING:
    from simulator.engine.controllers import Controller

StopRule = Callable[[Sequence[int]], bool]
"""Takes the ends e_0..e_k in ps after iteration k; True ends the run."""

ShareObserver = Callable[[int, Sequence[int], Sequence[float]], None]
"""Takes (now in ps, usage rows, speeds) at every solve; for tests of conservation."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Length of a run and its records.

    Attributes:
        max_iterations: K, at least 1.
        stop: ends the run early, see `StopRule`.
        keep_last: number of last iterations to record for all ranks; None keeps every one.
        sharing: rule by which activities share resources.
        controllers: controllers by the name that a controlled stream gives.
        observer: called at every solve.
        memory: units and usage of programs that ran before; give the same one to re-runs of a program.
    """

    max_iterations: int
    stop: StopRule | None = None
    keep_last: int | None = 2
    sharing: SharingModel = bottleneck_fairness
    controllers: Mapping[str, Controller] = field(default_factory=dict)
    observer: ShareObserver | None = None
    memory: ProgramMemory = field(default_factory=ProgramMemory)


@dataclass(frozen=True)
class GroupTimes:
    """Times of one program group in one iteration, in ps.

    Ranks that do the same at the same times are one class, whose times stand once. The start of an activity task is
    the rank's arrival; waiting is the time from there to the last arrival, 0 for private tasks.

    Attributes:
        classes: ranks that have the same times, and the first of each.
        class_start_ps: ``[T, C]``.
        class_end_ps: ``[T, C]``.
        waiting_tasks: tasks that may wait ``[A]``; all others have waiting 0.
        waiting_rows_ps: waiting of these ``[A, C]``.
    """

    classes: RankClasses
    class_start_ps: IntArray
    class_end_ps: IntArray
    waiting_tasks: IntArray
    waiting_rows_ps: IntArray

    @staticmethod
    def of_ranks(start_ps: IntArray, end_ps: IntArray, waiting_tasks: IntArray, rows_ps: IntArray) -> GroupTimes:
        """Times in which each rank has a class of its own: ``[T, P]``, ``[T, P]``, ``[A]`` and ``[A, P]``."""
        return GroupTimes(RankClasses.each(start_ps.shape[1]), start_ps, end_ps, waiting_tasks, rows_ps)

    @cached_property
    def start_ps(self) -> IntArray:
        """Starts of all ranks ``[T, P]``."""
        return self.classes.on_ranks(self.class_start_ps)

    @cached_property
    def end_ps(self) -> IntArray:
        """Ends of all ranks ``[T, P]``."""
        return self.classes.on_ranks(self.class_end_ps)

    @cached_property
    def waiting_ps(self) -> IntArray:
        """Waiting of every task on all ranks ``[T, P]``."""
        return self.classes.on_ranks(self.class_waiting_ps)

    @cached_property
    def class_waiting_ps(self) -> IntArray:
        """Waiting of every task ``[T, C]``."""
        waiting = np.zeros_like(self.class_start_ps)
        waiting[self.waiting_tasks] = self.waiting_rows_ps
        return waiting

    def of(self, ranks: IntArray | slice) -> GroupTimes:
        """Times of some ranks, by their places in the group, each a class of its own."""
        taken = self.classes.of_rank[ranks]
        rows = (self.class_start_ps[:, taken], self.class_end_ps[:, taken])
        return GroupTimes.of_ranks(*rows, self.waiting_tasks, self.waiting_rows_ps[:, taken])


@dataclass(frozen=True, slots=True)
class ActivityTimes:
    """Last arrival and end of each activity ``[I]`` in ps; -1 where no rank took part."""

    begin_ps: IntArray
    end_ps: IntArray


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """Everything that happened in one iteration, in the order of `LoweredProgram.groups`."""

    iteration: int
    groups: tuple[GroupTimes, ...]
    activities: ActivityTimes


@dataclass(frozen=True, slots=True)
class EngineRun:
    """Times of a run; the run starts at 0.

    Attributes:
        ranks: global rank numbers ``[W]``, groups one after the other.
        iteration_end_ps: e_k, latest end over all ranks and tasks of iteration k ``[K]``.
        rank_end_ps: latest end of each rank in iteration k ``[K, W]``.
        rank_waiting_ps: waiting for other ranks, all streams together ``[K, W]``.
        records: recorded iterations, ascending.
    """

    ranks: IntArray
    iteration_end_ps: IntArray
    rank_end_ps: IntArray
    rank_waiting_ps: IntArray
    records: tuple[IterationRecord, ...]

    @property
    def iterations(self) -> int:
        """K, how many iterations ended."""
        return len(self.iteration_end_ps)


class RunRecorder:
    """Collects finished iterations: totals of all, full records of the last few."""

    def __init__(self, ranks: IntArray, keep_last: int | None) -> None:
        """Record ``keep_last`` iterations in full (None: all)."""
        self._ranks, self._keep = ranks, keep_last
        self._ends: list[int] = []
        self._rank_ends: list[IntArray] = []
        self._waiting: list[IntArray] = []
        self._records: list[IterationRecord] = []

    @property
    def ends(self) -> list[int]:
        """Ends of the iterations so far in ps."""
        return self._ends

    def complete(self, iterations: int) -> bool:
        """Whether all ``iterations`` were recorded, none cut off by a stop rule."""
        return len(self._ends) == iterations

    def add(self, record: IterationRecord) -> None:
        """Take a finished iteration."""
        rank_ends = np.concatenate([g.classes.on_ranks(g.class_end_ps.max(axis=0)) for g in record.groups])
        waiting = np.concatenate([g.classes.on_ranks(g.waiting_rows_ps.sum(axis=0)) for g in record.groups])
        self._ends.append(int(rank_ends.max()))
        self._rank_ends.append(rank_ends)
        self._waiting.append(waiting)
        self._records.append(record)
        if self._keep is not None:
            del self._records[: max(0, len(self._records) - self._keep)]

    def result(self) -> EngineRun:
        """All that was recorded."""
        return EngineRun(
            ranks=self._ranks,
            iteration_end_ps=np.array(self._ends, dtype=np.int64),
            rank_end_ps=np.stack(self._rank_ends),
            rank_waiting_ps=np.stack(self._waiting),
            records=tuple(self._records),
        )
