"""Runs an import in the engine: as it was measured, or its collectives and operators on a simulated machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from inputs.errors import InputError
from simulator.engine import RunOptions, RunResult, run
from simulator.lowered import LoweredProgram
from simulator.lowering import Machine, lower
from simulator.operators import Amount, CollectiveCall, Copy, Delay, FloatArray, Measured, Work
from simulator.program import IntArray, TaskGraph
from traces.imported import Imported


def as_measured(imported: Imported) -> RunResult:
    """Run the measured durations: what follows from the trace's dependencies alone.

    Raises:
        InputError: the format has no times.
        DeadlockError: the trace's dependencies contradict each other.
    """
    if imported.measured is None:
        raise InputError("has no times to replay; name a cluster", file=imported.files[0], given=imported.format)
    return run(imported.measured.lowered, RunOptions(max_iterations=1))


def on_machine(imported: Imported, machine: Machine) -> tuple[LoweredProgram, RunResult]:
    """Run the import's programs on a machine: measured work keeps its duration, the rest follows the machine's models.

    Ranks without a trace run the first program, see `with_absent_ranks`.

    Raises:
        InputError: the import has no programs, or ranks the machine lacks.
        DeadlockError: the trace's dependencies contradict each other.
    """
    if not imported.graph.programs:
        raise InputError("has no programs to run", file=imported.files[0], given=imported.format)
    lowered = lower(with_absent_ranks(imported.graph, imported.world_size), machine).program
    return lowered, run(lowered, RunOptions(max_iterations=1))


def with_absent_ranks(graph: TaskGraph, world_size: int) -> TaskGraph:
    """The graph with every rank of the job: those without a trace run the first program, with its mean amounts."""
    present = np.concatenate([program.ranks for program in graph.programs])
    absent = np.setdiff1d(np.arange(world_size), present)
    if not len(absent):
        return graph
    first, *others = graph.programs
    order = np.argsort(np.concatenate([first.ranks, absent]))
    work = tuple(_extended(own, len(absent), order) for own in first.work)
    ranks = np.concatenate([first.ranks, absent])[order]
    return replace(graph, programs=(replace(first, ranks=ranks, work=work), *others))


def _extended(work: Work, more: int, order: IntArray) -> Work:
    """The work with the mean of its amounts on ``more`` further ranks."""

    def extended(amount: Amount) -> Amount:
        if not isinstance(amount, np.ndarray):
            return amount
        longer: FloatArray = np.concatenate([amount, np.full(more, amount.mean())])[order]
        return longer

    if isinstance(work, CollectiveCall | Copy):
        return replace(work, bytes=extended(work.bytes))
    return replace(work, seconds=extended(work.seconds)) if isinstance(work, Measured | Delay) else work


def error_ps(imported: Imported, replayed: RunResult) -> int:
    """Largest difference between a task's measured and replayed end over all tasks and ranks."""
    if imported.measured is None:
        return 0
    pairs = zip(imported.measured.result.records[0].groups, replayed.records[0].groups, strict=True)
    return max(int(np.abs(measured.end_ps - own.end_ps).max(initial=0)) for measured, own in pairs)
