"""The programs of ``python -m benchmarks engine``; the tests run them small.

Every iteration has T tasks on three streams: ``compute``, ``comm_a`` and ``comm_b``. Private tasks depend on one to
three earlier tasks (drawn by seed) and sit on all three streams. Collectives sit on the two comm streams, spread evenly
over the iteration; the first two, one on each stream, follow from the same task and overlap on the same ports. One
lag-1 dependency per stream ties iterations together. Durations are drawn per (iteration, task, rank), 5 to 15 us.

Resources are one port per rank. A collective uses the ports of its members, all of one share; the two partners of an
overlap use 1.0 and 0.7, so they slow each other down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.lowered import Activity, DrawnDurations, LoweredGroup, LoweredProgram, Phase
from simulator.program import IntArray, Stream

_STREAMS = ("compute", "comm_a", "comm_b")
_SHORTEST_PS, _LONGEST_PS = 5_000_000, 15_000_000
_LATENCY_PS = 5_000_000
_SHARES = (1.0, 0.7)


@dataclass(frozen=True, slots=True)
class CollectivePlan:
    """One collective of an iteration.

    Attributes:
        instance_of: group of each rank ``[P]``, numbered from 0.
        work_ps: duration alone of each group ``[groups]``.
        position: tasks of the iteration before it.
        stream: ``comm_a`` (1) or ``comm_b`` (2).
    """

    instance_of: IntArray
    work_ps: IntArray
    position: int
    stream: int


def global_program(ranks: int, iterations: int, *, tasks: int = 200, seed: int = 0) -> LoweredProgram:
    """12 collectives over all ranks; the first two of an iteration start from the same task and overlap."""
    world = np.zeros(ranks, dtype=np.int64)
    plans = [
        CollectivePlan(world, np.array([40_000_000 + 3_000_000 * n]), position, 1 + n % 2)
        for n, position in enumerate(_positions(12, tasks))
    ]
    return _program(plans, ranks, iterations, tasks, seed)


def grouped_program(ranks: int, iterations: int, *, tasks: int = 200, seed: int = 0) -> LoweredProgram:
    """8 collectives in nodes of 8 (sizes differ), 2 in rails of equal local rank, 2 over all ranks.

    The first pair is a global and a node collective on the same ports. The global one lasts longer than the spread of
    arrivals and the node ones together, so that the node ones of all nodes end, each at its own time, under it.
    """
    rng = np.random.default_rng(seed)
    kinds = ("world", "node", "node", "node", "rail", "node", "world", "node", "node", "rail", "node", "node")
    number = np.arange(ranks)
    groups = {"world": number * 0, "node": number // 8, "rail": number % 8}
    plans = []
    for n, (kind, position) in enumerate(zip(kinds, _positions(len(kinds), tasks), strict=True)):
        instance_of = groups[kind]
        count = int(instance_of.max()) + 1
        scale = 4 if n < 2 else 1
        low, high = (30_000_000 * scale, 60_000_000 * scale) if kind == "node" else (80_000_000 * scale,) * 2
        work = rng.integers(low, high, size=count, endpoint=True)
        plans.append(CollectivePlan(instance_of, work, position, 1 + n % 2))
    return _program(plans, ranks, iterations, tasks, seed)


def _positions(count: int, tasks: int) -> list[int]:
    """Places of the collectives, spread evenly; the first two stand side by side."""
    places = [(n + 1) * tasks // (count + 1) for n in range(count)]
    places[1] = places[0] + 1
    return places


def _program(plans: Sequence[CollectivePlan], ranks: int, iterations: int, tasks: int, seed: int) -> LoweredProgram:
    rng = np.random.default_rng(seed)
    at = {plan.position: plan for plan in plans}
    stream_of = np.array([at[t].stream if t in at else _private_stream(t) for t in range(tasks)])
    deps = [_dependencies(rng, task, at) for task in range(tasks)]
    for stream in range(len(_STREAMS)):
        on_stream = np.flatnonzero(stream_of == stream)
        deps[int(on_stream[0])].append((int(on_stream[-1]), 1))
    flat = [d for each in deps for d in each]
    activities: list[Activity] = []
    instances = [_add_instances(plan, n, activities) for n, plan in enumerate(plans)]
    durations = rng.integers(_SHORTEST_PS, _LONGEST_PS, size=(iterations, tasks, ranks))
    group = LoweredGroup(
        name="ranks",
        ranks=np.arange(ranks),
        streams=tuple(Stream(name) for name in _STREAMS),
        names=tuple(f"collective{t}" if t in at else f"task{t}" for t in range(tasks)),
        stream_of=stream_of,
        dep_ptr=np.cumsum([0, *(len(d) for d in deps)]),
        dep_task=np.array([d for d, _ in flat], dtype=np.int64),
        dep_lag=np.array([lag for _, lag in flat], dtype=np.int64),
        durations=DrawnDurations(durations),
        activity_tasks=np.array(sorted(at), dtype=np.int64),
        instances=np.stack([instances[n] for n in np.argsort([p.position for p in plans])]),
    )
    return LoweredProgram((group,), activities, ranks)


def _private_stream(task: int) -> int:
    """Nine of ten private tasks compute, the others sit on the comm streams."""
    return 0 if task % 10 else 1 + (task // 10) % 2


def _dependencies(rng: np.random.Generator, task: int, at: dict[int, CollectivePlan]) -> list[tuple[int, int]]:
    """One to three of the twelve tasks before; partners of an overlap depend on the same task."""
    if task == 0:
        return []
    if task in at:
        first = task - 1 if task - 1 not in at else task - 2
        return [(first, 0)]
    count = min(task, int(rng.integers(1, 4)))
    return [(int(d), 0) for d in rng.choice(np.arange(max(0, task - 12), task), size=min(count, task), replace=False)]


def _add_instances(plan: CollectivePlan, number: int, activities: list[Activity]) -> IntArray:
    """Append one activity per group; returns the activity of each rank ``[P]``."""
    first = len(activities)
    order = np.argsort(plan.instance_of, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(plan.instance_of[order])) + 1)
    share = _SHARES[number % 2]
    for group, ports in enumerate(members):
        phase = Phase(_LATENCY_PS, int(plan.work_ps[group]), np.sort(ports), np.full(len(ports), share))
        activities.append(Activity(f"collective{number}.{group}", (phase,)))
    return plan.instance_of + first
