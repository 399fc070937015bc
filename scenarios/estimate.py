"""Estimate of a run's size before it starts, in rank-tasks, memory and time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from inputs.errors import InfeasibleError
from inputs.quantities import format_quantity
from scenarios.family import family_of
from scenarios.host_memory import available_memory_bytes
from scenarios.resolved import ResolvedScenario
from simulator.agreement import calls_by_communicator
from simulator.analysis import BOUND_RUNS
from simulator.collective_calls import CollectiveCall
from simulator.operators import FloatArray
from simulator.program import IntArray, TaskGraph
from simulator.rank_classes import classes_of
from simulator.work import Work

RECORD_BYTES = 3 * 8
"""Start, end and waiting of a task on a rank in one recorded iteration, int64 each."""

TOTAL_BYTES = 2 * 3 * 8
"""End, busy and waiting of a rank in every iteration, int64 each, twice while they are joined at the end of a run."""

BASE_BYTES, TASK_BYTES, WORKING_BYTES, RANK_BYTES = 140e6, 10e3, 630.0, 9e3
"""Peak of the process, and bytes added for each task, for each task and rank that differs from others (with two
recorded iterations), and for each rank: within 1.5 of the peaks of ``python -m benchmarks estimates``, 0.14 to 1.1 GB.
"""

FEW_DIFFER = 1024
"""Ranks that differ in a job whose task graph is not known yet: in large jobs most do what others do."""

START_S = 1.4
"""Processor time of a run beside its job's size: loading, page, trace and tables, seconds."""
RUN_S_PER_TASK, S_PER_INSTANCE, RANK_TASKS_PER_S, S_PER_ROW, RUN_S_PER_RANK = 1.3e-4, 2e-4, 8e7, 2.3e-7, 3e-6
"""Processor time of lowering and running a task, of a collective of one group of ranks in an iteration, of the engine's
columns, of a row of the timeline, and of lowering for a rank. With `START_S`, `PLACINGS` and `LEVER_RUNS` they give
the time of ``python -m benchmarks estimates`` on a core of a cloud machine within a factor of two."""
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
    varies = resolved.scenario.variation.varies or inputs_vary
    tasks = sum(program.task_count for program in graph.programs)
    per_iteration = sum(program.task_count * program.rank_count for program in graph.programs)
    columns = per_iteration if varies else _columns(graph)
    return _size(resolved, _Tasks(tasks, per_iteration, columns, _instances(graph)), varies, placing_s)


def _columns(graph: TaskGraph) -> int:
    """Tasks of an iteration on ranks that differ in their amounts, or are members of other groups."""
    count = 0
    for program in graph.programs:
        calls = calls_by_communicator(program.work)
        apart = (name for name, own in calls.items() if not all(call.in_step for _, call in own))
        rows: list[IntArray | FloatArray] = [graph.communicators[name][program.ranks] for name in apart]
        rows += [row for work in program.work for row in _amounts(work, program.rank_count)]
        count += program.task_count * len(classes_of(program.rank_count, rows).first)
    return count


def _amounts(work: Work, ranks: int) -> Iterator[FloatArray]:
    """Amounts of a task that each rank has of its own ``[P]``; amounts of collectives do not distinguish ranks."""
    if not isinstance(work, CollectiveCall):
        for each in fields(work):
            value = getattr(work, each.name)
            if isinstance(value, np.ndarray) and value.shape == (ranks,):
                yield value


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
    expected, ranks = family_of(resolved).expected(resolved), resolved.world_size
    varies = resolved.scenario.variation.varies or expected.varies
    few = FEW_DIFFER if expected.differ is None else expected.differ
    columns = expected.tasks * (ranks if varies else min(ranks, few))
    return _size(resolved, _Tasks(expected.tasks, expected.tasks * ranks, columns, 0), varies, 0.0)


@dataclass(frozen=True, slots=True)
class _Tasks:
    """Numbers of an iteration: tasks of a rank, on all ranks, on ranks that differ, and collectives of groups."""

    count: int
    on_ranks: int
    columns: int
    instances: int


def _size(resolved: ResolvedScenario, tasks: _Tasks, varies: bool, placing_s: float) -> RunSize:
    iterations, probes = _iterations(resolved, varies), BOUND_RUNS
    again = iterations if varies else min(PROBE_ITERATIONS, iterations)
    rank_tasks = tasks.on_ranks * (iterations + probes * again)
    recorded = min(resolved.scenario.output.record.iterations, iterations)
    simulated = iterations + probes * again + LEVER_RUNS * min(again, LEVER_ITERATIONS)
    return RunSize(
        tasks_per_iteration=tasks.count,
        rank_tasks_per_iteration=tasks.on_ranks,
        iterations=iterations,
        runs=1 + probes,
        rank_tasks=rank_tasks,
        memory_bytes=BASE_BYTES
        + tasks.count * TASK_BYTES
        + tasks.columns * (WORKING_BYTES + (recorded - 2) * RECORD_BYTES)
        + resolved.world_size * (RANK_BYTES + iterations * TOTAL_BYTES),
        seconds=START_S
        + PLACINGS * placing_s
        + (1 + probes + LEVER_RUNS) * (tasks.count * RUN_S_PER_TASK + resolved.world_size * RUN_S_PER_RANK)
        + simulated * (tasks.instances * S_PER_INSTANCE + tasks.columns / RANK_TASKS_PER_S)
        + recorded * tasks.columns * S_PER_ROW,
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
