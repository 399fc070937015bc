"""Estimate of a run's size before it starts, in rank-tasks, memory and time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inputs.errors import InfeasibleError
from inputs.quantities import format_quantity
from scenarios.host_memory import physical_memory_bytes
from scenarios.prepare import Prepared
from simulator.analysis import BOUND_RUNS

RECORD_BYTES = 3 * 8
"""Start, end and waiting of a task on a rank in one recorded iteration, int64 each."""

TOTAL_BYTES = 2 * 3 * 8
"""End, busy and waiting of a rank in every iteration, int64 each, twice while they are joined at the end of a run."""

BASE_BYTES = 150e6
WORKING_BYTES = 400
"""Peak of the process, and the bytes added per task and rank with two recorded iterations: 630 MB at 4,096 ranks and
1,824 MB at 16,384, 275 tasks each (`zionex_a_128` with ``nodes=512`` and ``nodes=2048``, ``/usr/bin/time -v``)."""

ENGINE_RANK_TASKS_PER_S = 2e7
LOWERED_TASKS_PER_S = 2e3
"""Rates that reproduce the wall clock of the same runs (3.5 s and 8.1 s) on a core of a cloud machine within 30 %."""

SETTLED_ITERATIONS = 9
PROBE_ITERATIONS = 3
"""Iterations until a run without variation has settled (two windows of 4 and a first), and until a re-run repeats."""


def run_size(prepared: Prepared) -> dict[str, Any]:
    """Size of a run: tasks, iterations, rank-tasks of the run and its re-runs, bytes of memory, seconds."""
    tasks = sum(program.task_count for program in prepared.graph.programs)
    per_iteration = sum(program.task_count * program.rank_count for program in prepared.graph.programs)
    iterations, probes = _iterations(prepared), BOUND_RUNS
    again = iterations if _varies(prepared) else min(PROBE_ITERATIONS, iterations)
    rank_tasks = per_iteration * (iterations + probes * again)
    more_records = prepared.resolved.scenario.output.record.iterations - 2
    return {
        "tasks_per_iteration": tasks,
        "rank_tasks_per_iteration": per_iteration,
        "iterations": iterations,
        "runs": 1 + probes,
        "rank_tasks": rank_tasks,
        "memory_bytes": BASE_BYTES
        + per_iteration * (WORKING_BYTES + more_records * RECORD_BYTES)
        + prepared.resolved.world_size * iterations * TOTAL_BYTES,
        "seconds": rank_tasks / ENGINE_RANK_TASKS_PER_S + (1 + probes) * tasks / LOWERED_TASKS_PER_S,
    }


def require_memory(size: Mapping[str, Any]) -> None:
    """Check that a run fits into this machine's memory.

    Raises:
        InfeasibleError: they do not; with the estimate.
    """
    available = physical_memory_bytes()
    if size["memory_bytes"] > available:
        needed, there = (format_quantity(float(v), "bytes", binary=True) for v in (size["memory_bytes"], available))
        raise InfeasibleError(
            f"the run is too large for this machine: it would take {needed}, the machine has {there} "
            f"({size['rank_tasks_per_iteration']:,} rank-tasks per iteration); "
            "record fewer iterations (output.record.iterations) or simulate fewer ranks"
        )


def _varies(prepared: Prepared) -> bool:
    """Whether iterations differ: by jitter, or by bag lengths."""
    return prepared.resolved.scenario.variation.varies or bool(prepared.plan.tables.pooling)


def _iterations(prepared: Prepared) -> int:
    """Iterations a run will have; where they differ it may not settle and goes on to the last."""
    choice = prepared.resolved.scenario.run
    if choice.iterations != "auto":
        return choice.iterations
    return choice.max_iterations if _varies(prepared) else min(SETTLED_ITERATIONS, choice.max_iterations)
