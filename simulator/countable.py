"""Times that the engine can count: int64 picoseconds.

A task may take up to `MAX_TASK_S` alone, 75 minutes: the engine counts the work of a phase in 62 bits and needs ten of
them for its speed (`simulator.engine.flows`), which leaves 2^52 ps. A run may take up to `MAX_RUN_PS` one task after
the other: half of what int64 holds, so that no sum of times on the way overflows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from inputs.errors import InputError
from simulator.categories import Category
from simulator.lowered import PS_PER_S, LoweredGroup, LoweredProgram, longest_ps
from simulator.operators import Amount, FloatArray
from simulator.program import Program

MAX_TASK_S = 4500.0
MAX_RUN_PS = 2**62

_KEYS: Mapping[Category, str] = {
    Category.INPUT: "workload.ingestion", Category.HOST: "workload.framework", Category.COMPUTE: "cluster.node",
    Category.COPY: "cluster.node", Category.COMM: "cluster",
}  # fmt: skip
"""Part of a scenario that the time of a task follows from, beside its size."""


def require_countable_tasks(program: Program, seconds: Mapping[int, Amount]) -> None:
    """Check durations of tasks alone before they become integers.

    Args:
        seconds: duration by task, a scalar or ``[P]``.

    Raises:
        InputError: one is infinite or too long; with the task and the part of the scenario that makes it so.
    """
    categories = program.categories
    for task, value in seconds.items():
        require_countable(program.names[task], float(np.max(value, initial=0.0)), categories[task])


def require_countable(task: str, seconds: float, category: Category = Category.COMM) -> None:
    """Check the longest duration of a task over ranks; raises as `require_countable_tasks`."""
    if not seconds <= MAX_TASK_S:  # not a number is no time either
        raise InputError(
            f"the task {task} takes longer than can be counted in picoseconds",
            key=_KEYS.get(category),
            given=f"{seconds:,.3g} s",
            expected=f"at most {MAX_TASK_S:,.0f} s: a faster machine or a smaller job",
        )


def require_countable_run(program: LoweredProgram, iterations: int) -> tuple[str, float]:
    """Check the times of a lowered program; name and seconds of its longest task.

    Raises:
        InputError: a task, or all tasks of so many iterations one after the other, take too long.
    """
    totals = np.array([sum(p.latency_ps + p.work_ps for p in a.phases) for a in program.activities], dtype=np.float64)
    tasks = [task for group in program.groups for task in _task_times(group, totals)]
    name, longest_s = max(tasks, key=lambda task: task[1], default=("", 0.0))
    require_countable(name, longest_s)
    iteration_s = sum(seconds for _, seconds in tasks)
    if iteration_s * iterations * PS_PER_S >= MAX_RUN_PS:
        raise InputError(
            "the run takes longer than can be counted in picoseconds",
            key="run",
            given=f"{iterations:,} iterations of {iteration_s:,.3g} s, the longest task {name} with {longest_s:,.3g} s",
            expected=f"at most {MAX_RUN_PS / PS_PER_S:,.0f} s in all: fewer iterations, or a faster machine",
        )
    return name, longest_s


def _task_times(group: LoweredGroup, totals: FloatArray) -> Iterable[tuple[str, float]]:
    """Name of each task, and its longest time alone over ranks, seconds.

    Args:
        totals: time of each activity alone, ps.
    """
    times = longest_ps(group.durations).astype(np.float64)
    if group.activity_tasks.size:
        takes = np.append(totals, 0.0)[group.instances]  # -1: the rank takes no part
        times[group.activity_tasks] = np.maximum(times[group.activity_tasks], takes.max(axis=1, initial=0.0))
    return zip(group.names, (times / PS_PER_S).tolist(), strict=True)
