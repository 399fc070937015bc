"""Runs an import in the engine: as it was measured, or its collectives and operators on a simulated machine."""

from __future__ import annotations

import numpy as np

from inputs.errors import InputError
from simulator.engine import RunOptions, RunResult, run
from simulator.lowered import LoweredProgram
from simulator.lowering import Machine, lower
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

    Raises:
        InputError: the import has no programs, or ranks the machine lacks.
        DeadlockError: the trace's dependencies contradict each other.
    """
    if not imported.graph.programs:
        raise InputError("has no programs to run", file=imported.files[0], given=imported.format)
    lowered = lower(imported.graph, machine).program
    return lowered, run(lowered, RunOptions(max_iterations=1))


def error_ps(imported: Imported, replayed: RunResult) -> int:
    """Largest difference between a task's measured and replayed end over all tasks and ranks."""
    if imported.measured is None:
        return 0
    pairs = zip(imported.measured.result.records[0].groups, replayed.records[0].groups, strict=True)
    return max(int(np.abs(measured.end_ps - own.end_ps).max(initial=0)) for measured, own in pairs)
