"""``--check``: everything but the run. Is it valid, does it fit, how large would the run be?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from inputs.errors import InfeasibleError
from inputs.quantities import format_quantity
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario
from scenarios.summary import job_of, sharding_of
from simulator.lowering import BOUND_CLASSES

BYTES_PER_RANK_TASK = 3 * 8
"""Start, end and waiting of a recorded task on a rank, int64 each."""

ENGINE_RANK_TASKS_PER_S = 2e7
LOWERING_TASKS_PER_S = 2e3
"""Rates that the estimate assumes; `zionex_a_128` at 512 nodes on one 2.5 GHz core: `python -m benchmarks cli`."""

SETTLED_ITERATIONS = 9
PROBE_ITERATIONS = 3
"""Iterations until a run without variation has settled (two windows of 4 and a first), and until a re-run repeats."""


def check(resolved: ResolvedScenario, progress: Progress | None = None) -> dict[str, Any]:
    """What a run would need: memory per rank and tier, and the size of the run. Nothing is simulated.

    Raises:
        InputError: the scenario is wrong, or a model, generator or planner refuses it.
        InfeasibleError: the job does not fit into the memory of the GPUs, or the run into this machine's.
    """
    prepared = prepare(resolved, progress or Silent())
    size = run_size(prepared)
    require_memory(size)
    return {
        **job_of(resolved),
        "scenario_hash": resolved.hash,
        "memory": prepared.memory.to_dict(),
        "sharding": sharding_of(prepared.plan),
        "size": size,
    }


def run_size(prepared: Prepared) -> dict[str, Any]:
    """How large a run is: tasks, iterations, rank-tasks of the run and its re-runs, bytes of memory, seconds."""
    tasks = sum(program.task_count for program in prepared.graph.programs)
    per_iteration = sum(program.task_count * program.rank_count for program in prepared.graph.programs)
    iterations, probes = _iterations(prepared.resolved), len(BOUND_CLASSES) + 1
    again = iterations if _jitters(prepared.resolved) else min(PROBE_ITERATIONS, iterations)
    rank_tasks = per_iteration * (iterations + probes * again)
    recorded = prepared.resolved.scenario.output.record.iterations + 1
    return {
        "tasks_per_iteration": tasks,
        "rank_tasks_per_iteration": per_iteration,
        "iterations": iterations,
        "runs": 1 + probes,
        "rank_tasks": rank_tasks,
        "memory_bytes": per_iteration * recorded * BYTES_PER_RANK_TASK,
        "seconds": rank_tasks / ENGINE_RANK_TASKS_PER_S + (1 + probes) * tasks / LOWERING_TASKS_PER_S,
    }


def require_memory(size: Mapping[str, Any]) -> None:
    """Check that the records of a run fit into this machine's memory.

    Raises:
        InfeasibleError: they do not; with the estimate.
    """
    available = _physical_memory_bytes()
    if size["memory_bytes"] > available:
        needed, there = (format_quantity(float(v), "bytes", binary=True) for v in (size["memory_bytes"], available))
        raise InfeasibleError(
            f"the run is too large for this machine: it would record {needed}, the machine has {there} "
            f"({size['rank_tasks_per_iteration']:,} rank-tasks per iteration); "
            "record fewer iterations (output.record.iterations) or simulate fewer ranks"
        )


def _iterations(resolved: ResolvedScenario) -> int:
    """Iterations a run will have; with jitter it may not settle and goes on to the last."""
    choice = resolved.scenario.run
    if choice.iterations != "auto":
        return choice.iterations
    return choice.max_iterations if _jitters(resolved) else min(SETTLED_ITERATIONS, choice.max_iterations)


def _jitters(resolved: ResolvedScenario) -> bool:
    variation = resolved.scenario.variation
    return variation.compute_jitter > 0 or variation.host_jitter > 0


def _physical_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
