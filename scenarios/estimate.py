"""Estimate of a run's size before it starts, in rank-tasks, memory and time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inputs.errors import InfeasibleError
from inputs.quantities import format_quantity
from scenarios.family import family_of
from scenarios.host_memory import available_memory_bytes
from scenarios.resolved import ResolvedScenario
from simulator.agreement import calls_by_communicator
from simulator.analysis import BOUND_RUNS
from simulator.program import TaskGraph

RECORD_BYTES = 3 * 8
"""Start, end and waiting of a task on a rank in one recorded iteration, int64 each."""

TOTAL_BYTES = 2 * 3 * 8
"""End, busy and waiting of a rank in every iteration, int64 each, twice while they are joined at the end of a run."""

BASE_BYTES = 150e6
WORKING_BYTES = 400
"""Peak of the process, and the bytes added per task and rank with two recorded iterations: 630 MB at 4,096 ranks and
1,824 MB at 16,384, 275 tasks each (``zionex_a_128`` with ``nodes=512`` and ``nodes=2048``, ``/usr/bin/time -v``)."""

START_S = 1.4
"""Processor time of a run beside its job's size: loading, page, trace and tables, seconds."""
RUN_S_PER_TASK, S_PER_INSTANCE, RANK_TASKS_PER_S, S_PER_ROW = 1.3e-4, 2e-4, 8e7, 2.3e-7
"""Processor time of lowering and running a task, of a collective of one group of ranks in an iteration, of the engine's
columns, and of a row of the timeline. With `START_S`, `PLACINGS` and `LEVER_RUNS` they give the time of
``python -m benchmarks estimates`` on a core of a cloud machine within a factor of two."""
PLACINGS = 2
"""Placements of a job in a run: its own, and one of a setting that is tried."""
LEVER_RUNS, LEVER_ITERATIONS = 12, 10
"""Settings that are tried, 9 to 18 in shipped scenarios of DLRMs, and most iterations of each."""

SETTLED_ITERATIONS = 9
PROBE_ITERATIONS = 3
"""Iterations until a run without variation has settled (two windows of 4 and a first), and until a re-run repeats."""


@dataclass(frozen=True, slots=True)
class RunSize:
    """Size of a run.

    Attributes:
        runs: the run and its re-runs for the bound.
        rank_tasks: sum over all runs.
        memory_bytes: peak of the process.
        seconds: processor time.
    """

    tasks_per_iteration: int
    rank_tasks_per_iteration: int
    iterations: int
    runs: int
    rank_tasks: int
    memory_bytes: float
    seconds: float


def run_size(resolved: ResolvedScenario, graph: TaskGraph, *, inputs_vary: bool, placing_s: float = 0.0) -> RunSize:
    """Size of a run whose tasks are known.

    Args:
        inputs_vary: whether the inputs of iterations differ.
        placing_s: processor time that placing the job took.
    """
    tasks = sum(program.task_count for program in graph.programs)
    per_iteration = sum(program.task_count * program.rank_count for program in graph.programs)
    return _size(resolved, tasks, per_iteration, inputs_vary, _instances(graph), placing_s)


def _instances(graph: TaskGraph) -> int:
    """Collectives of an iteration, each counted once for every group of ranks that makes it, or for all in step."""
    count = 0
    for program in graph.programs:
        for name, calls in calls_by_communicator(program.work).items():
            instances = graph.communicators[name][program.ranks]
            groups = len(np.unique(instances[instances >= 0]))
            count += sum(1 if call.in_step else groups for _, call in calls)
    return count


def expected_size(resolved: ResolvedScenario) -> RunSize:
    """Size of a run before its job is placed, as its family expects it."""
    expected = family_of(resolved).expected(resolved)
    return _size(resolved, expected.tasks, expected.tasks * resolved.world_size, expected.varies)


def _size(
    resolved: ResolvedScenario,
    tasks: int,
    per_iteration: int,
    inputs_vary: bool,
    instances: int = 0,
    placing_s: float = 0.0,
) -> RunSize:
    varies = resolved.scenario.variation.varies or inputs_vary
    iterations, probes = _iterations(resolved, varies), BOUND_RUNS
    again = iterations if varies else min(PROBE_ITERATIONS, iterations)
    rank_tasks = per_iteration * (iterations + probes * again)
    recorded = min(resolved.scenario.output.record.iterations, iterations)
    simulated = iterations + probes * again + LEVER_RUNS * min(again, LEVER_ITERATIONS)
    return RunSize(
        tasks_per_iteration=tasks,
        rank_tasks_per_iteration=per_iteration,
        iterations=iterations,
        runs=1 + probes,
        rank_tasks=rank_tasks,
        memory_bytes=BASE_BYTES
        + per_iteration * (WORKING_BYTES + (recorded - 2) * RECORD_BYTES)
        + resolved.world_size * iterations * TOTAL_BYTES,
        seconds=START_S
        + PLACINGS * placing_s
        + (1 + probes + LEVER_RUNS) * tasks * RUN_S_PER_TASK
        + simulated * (instances * S_PER_INSTANCE + per_iteration / RANK_TASKS_PER_S)
        + recorded * per_iteration * S_PER_ROW,
    )


def require_room(tasks: int, ranks: int) -> None:
    """Check that one iteration of so many tasks on each rank fits into this machine's free memory.

    Raises:
        InfeasibleError: it does not; with the estimate.
    """
    rank_tasks = tasks * ranks
    _require(tasks, rank_tasks, BASE_BYTES + WORKING_BYTES * rank_tasks)


def require_memory(size: RunSize) -> None:
    """Check that a run fits into this machine's free memory.

    Raises:
        InfeasibleError: it does not; with the estimate.
    """
    _require(size.tasks_per_iteration, size.rank_tasks_per_iteration, size.memory_bytes)


def _require(tasks: int, rank_tasks: int, memory_bytes: float) -> None:
    available = available_memory_bytes()
    if memory_bytes > available:
        needed, there = (format_quantity(float(v), "bytes", binary=True) for v in (memory_bytes, available))
        raise InfeasibleError(
            f"the run is too large for this machine: it would take about {needed}, the machine has {there} free "
            f"({tasks:,} tasks, {rank_tasks:,} rank-tasks per iteration); "
            "simulate fewer iterations (run.iterations), record fewer (output.record.iterations), or fewer ranks"
        )


def _iterations(resolved: ResolvedScenario, varies: bool) -> int:
    """Iterations a run will have; where they differ it may not settle and goes on to the last."""
    choice = resolved.scenario.run
    if choice.iterations != "auto":
        return choice.iterations
    return choice.max_iterations if varies else min(SETTLED_ITERATIONS, choice.max_iterations)
