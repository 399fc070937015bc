"""A job to run again: programs, the duration of each task on each rank, the transfer time of each collective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from inputs.errors import InputError
from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.lowered import PS_PER_S
from simulator.operators import Delay, Measured
from simulator.program import IntArray, Program, SequencedCall, TaskGraph, sequenced_calls
from simulator.work import Work
from traces.imported import Imported, RankStep
from traces.measured import MeasuredRun

UNKNOWN = -1
"""Duration of tasks whose time the trace does not have: a machine's models give it."""


@dataclass(frozen=True, slots=True)
class TaskOffset:
    """A time relative to the nearest edge of a task of the rank: ``offset_ps`` after its start or its end."""

    task: int
    at_end: bool
    offset_ps: int


@dataclass(frozen=True, slots=True)
class StepPlace:
    """One iteration of one rank: where it begins and ends among its tasks."""

    rank: int
    number: int
    name: str
    begin: TaskOffset
    end: TaskOffset


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """A traced job to run again, changed or not.

    Attributes:
        source: the import it comes from.
        graph: programs and communicators; ``work`` describes each task without its time.
        durations_ps: durations of the private tasks of each program ``[T, P]``, `UNKNOWN` where the trace has no time.
        transfers_ps: times from the last arrival to the end, by communicator and number of the call on it, per instance
            ``[I]``; empty where the trace has no times.
        steps: iterations of every rank.
        world_size: ranks of the job.
        notes: assumptions on the way, a line each.
    """

    source: Imported
    graph: TaskGraph
    durations_ps: tuple[IntArray, ...]
    transfers_ps: Mapping[tuple[str, int], IntArray]
    steps: tuple[StepPlace, ...]
    world_size: int
    notes: tuple[str, ...] = field(default=())

    @property
    def ranks(self) -> IntArray:
        """Ranks that have a program, ascending."""
        return np.sort(np.concatenate([program.ranks for program in self.graph.programs]))

    def place_of(self, rank: int) -> tuple[int, int]:
        """Number of a rank's program and its column there.

        Raises:
            KeyError: the rank has no program.
        """
        for number, program in enumerate(self.graph.programs):
            column = int(np.searchsorted(program.ranks, rank))
            if column < program.rank_count and program.ranks[column] == rank:
                return number, column
        raise KeyError(rank)

    def with_note(self, note: str) -> ReplayJob:
        """The job with one more line in its assumptions."""
        return replace(self, notes=(*self.notes, note))


def job_of(imported: Imported) -> ReplayJob:
    """The job an import shows, to be replayed.

    Raises:
        InputError: the import has no programs.
    """
    graph, measured = imported.graph, imported.measured
    if not graph.programs:
        raise InputError(
            "has no programs to run", file=imported.files[0], given=imported.format, expected="traces with tasks"
        )
    if measured is None:
        durations = tuple(_stated(program) for program in graph.programs)
        return ReplayJob(imported, graph, durations, {}, (), imported.world_size)
    durations = tuple(
        np.array(np.broadcast_to(own.durations.at(0), (own.task_count, own.rank_count)))
        for own in measured.lowered.groups
    )
    steps = tuple(_step(measured, step) for step in imported.steps)
    return ReplayJob(imported, graph, durations, dict(_transfers(measured)), steps, imported.world_size)


def _stated(program: Program) -> IntArray:
    """Durations that stand in the work itself ``[T, P]``."""
    durations = np.full((program.task_count, program.rank_count), UNKNOWN, dtype=np.int64)
    for task, work in enumerate(program.work):
        if isinstance(work, Measured | Delay):
            durations[task] = np.rint(np.asarray(work.seconds) * PS_PER_S)
        elif isinstance(work, CollectiveCall):
            durations[task] = 0
    return durations


def _transfers(measured: MeasuredRun) -> list[tuple[tuple[str, int], IntArray]]:
    """Time of each collective from the last arrival to its end, ps."""
    return [(call.key, _transfer(measured, call)) for call in sequenced_calls(measured.graph)]


def _transfer(measured: MeasuredRun, call: SequencedCall) -> IntArray:
    """Transfers of the instances of a call ``[I]``, ps."""
    transfers = np.zeros(int(call.instance.max()) + 1, dtype=np.int64)
    for caller in call.callers:
        group = measured.lowered.groups[caller.program]
        activities = group.instances[int(np.searchsorted(group.activity_tasks, caller.task))]
        for instance, activity in zip(call.instance[group.ranks].tolist(), activities.tolist(), strict=True):
            if instance >= 0:
                transfers[instance] = sum(p.latency_ps for p in measured.lowered.activities[activity].phases)
    return transfers


def _step(measured: MeasuredRun, step: RankStep) -> StepPlace:
    number, column = next(
        (g, int(np.searchsorted(program.ranks, step.rank)))
        for g, program in enumerate(measured.graph.programs)
        if step.rank in program.ranks
    )
    times = measured.result.records[0].groups[number]
    tasks = _main_tasks(measured.graph.programs[number])
    starts, ends = times.start_ps[tasks, column], times.end_ps[tasks, column]
    places = (_nearest(tasks, starts, ends, at_ps) for at_ps in (step.start_ps, step.end_ps))
    return StepPlace(step.rank, step.number, step.name, *places)


def _main_tasks(program: Program) -> IntArray:
    """Tasks of the first stream with host work, which marks the steps; all tasks where no host work is known."""
    host = np.array([category is Category.HOST for category in program.categories])
    if not host.any():
        return np.arange(program.task_count)
    main: IntArray = np.flatnonzero(program.stream_of == program.stream_of[host].min())
    return main


def _nearest(tasks: IntArray, starts: IntArray, ends: IntArray, at_ps: int) -> TaskOffset:
    to_start, to_end = np.abs(starts - at_ps), np.abs(ends - at_ps)
    first, last = int(np.argmin(to_start)), int(np.argmin(to_end))
    if to_end[last] <= to_start[first]:
        return TaskOffset(int(tasks[last]), at_end=True, offset_ps=at_ps - int(ends[last]))
    return TaskOffset(int(tasks[first]), at_end=False, offset_ps=at_ps - int(starts[first]))


def amounts_of(work: Work, columns: IntArray) -> Work:
    """The work of some of a program's ranks: amounts ``[P]`` at the given columns."""
    arrays = {f.name: getattr(work, f.name) for f in fields(work) if isinstance(getattr(work, f.name), np.ndarray)}
    if not arrays:
        return work
    return replace(work, **{name: value[columns] for name, value in arrays.items()})


def with_work(graph: TaskGraph, changed: Sequence[Sequence[Work]]) -> TaskGraph:
    """The graph with other work in each program."""
    programs = zip(graph.programs, changed, strict=True)
    return replace(graph, programs=tuple(replace(program, work=tuple(work)) for program, work in programs))
