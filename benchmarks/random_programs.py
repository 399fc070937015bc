"""Random lowered programs that try to break the engine.

One generator serves two masters: hypothesis in the tests (which shrinks what fails) and ``python -m benchmarks oracle``
(which runs tens of thousands by seed). Both hand in a `ChoiceSource`. A program has 1-3 groups of 1-8 ranks in all, 1-4
streams, 1-5 iterations, dependencies of lag 0-2, and collectives over the world, a partition, a part of it or none,
over one or several groups. Latencies and works may be zero, loads on few shared resources are unequal, times are often
small multiples of 10 (ties), activities may have one member or members that go on before the end, ranks of some groups
are alike, and now and then there is a deadlock.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from simulator.lowered import (
    Activity,
    Background,
    ConstantDurations,
    DrawnDurations,
    Durations,
    FusedCalls,
    LoweredGroup,
    LoweredProgram,
    Phase,
)
from simulator.program import IntArray, Stream

T = TypeVar("T")
_USAGES = (1.0, 1.0, 0.5, 0.6, 0.3, 0.25)


class ChoiceSource(Protocol):
    """Source of a generator's choices."""

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        ...


@dataclass(frozen=True, slots=True)
class SeededChoices:
    """Choices of a seeded generator."""

    source: random.Random

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return self.source.randint(low, high)


def _one_of(choices: ChoiceSource, options: Sequence[T]) -> T:
    return options[choices.integer(0, len(options) - 1)]


def _rarely(choices: ChoiceSource, one_in: int) -> bool:
    return choices.integer(1, one_in) == one_in


def _time(choices: ChoiceSource) -> int:
    """A time in ps: often 0, often a multiple of 10 (ties), sometimes odd, sometimes long."""
    kind = choices.integer(0, 9)
    if kind < 2:
        return 0
    if kind < 7:
        return 10 * choices.integer(1, 5)
    return choices.integer(1, 99) if kind < 9 else choices.integer(10**6, 10**9)


@dataclass(frozen=True, slots=True)
class RandomProgram:
    """A program and how many iterations to run."""

    program: LoweredProgram
    iterations: int


def draw_program(choices: ChoiceSource, *, controlled: bool = False, loaded: bool = False) -> RandomProgram:
    """A random program.

    Args:
        controlled: some streams issue by readiness (controller ``readiness``), some have several workers.
        loaded: other jobs take shares of some resources, all the time or in bursts.
    """
    iterations = choices.integer(1, 5)
    sizes = [choices.integer(1, max(1, 8 // groups)) for groups in [choices.integer(1, 3)] for _ in range(groups)]
    ranks = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    resources = choices.integer(1, 5)
    shells = [_Shell(choices, number, mine, controlled=controlled) for number, mine in enumerate(ranks)]
    activities: list[Activity] = []
    for number in range(choices.integer(0, 5)):
        _add_collective(choices, shells, activities, number, resources)
    groups = tuple(shell.lowered(choices, iterations) for shell in shells)
    program = LoweredProgram(groups, activities, resources)
    return RandomProgram(_alike(choices, _loaded(choices, program) if loaded else program), iterations)


def draw_fused_program(choices: ChoiceSource) -> RandomProgram:
    """A random program whose ranks leave collectives of different sizes to a coordinator, beside other collectives."""
    drawn = draw_program(choices)
    program, ranks = drawn.program, drawn.program.world_size
    calls, first = choices.integer(1, 6), len(program.activities)
    groups = tuple(_with_calls(choices, group, first, calls) for group in program.groups)
    own = [_activity(choices, f"f{number}", ranks, program.resource_count) for number in range(calls)]
    sizes = np.cumsum([choices.integer(1, 60) for _ in range(choices.integer(1, 3))])
    known = [replace(_activity(choices, f"k{size}", 1, program.resource_count), release_phase=None) for size in sizes]
    fused = FusedCalls(
        call_of=tuple(
            np.where(g.stream_of == len(g.streams) - 1, np.arange(g.task_count) - g.task_count + calls, -1)
            for g in groups
        ),
        bytes=np.array([choices.integer(1, int(sizes[-1])) for _ in range(calls)]),
        sizes=sizes,
        activities=first + calls + np.arange(len(sizes)),
        fusion_bytes=choices.integer(1, int(sizes[-1])),
        cycle_ps=_time(choices),
        negotiation_ps=_time(choices),
        copy_ps_per_byte=_one_of(choices, (0.0, 0.5, 3.0)),
    )
    activities = [*program.activities, *(replace(each, release_phase=None) for each in own), *known]
    program = replace(program, groups=groups, activities=activities, fused={"fuse": fused})
    return RandomProgram(program, drawn.iterations)


def _alike(choices: ChoiceSource, program: LoweredProgram) -> LoweredProgram:
    """The program, perhaps with groups that take as long in all iterations, many of whose ranks are alike."""
    groups = list(program.groups)
    for number, group in enumerate(groups):
        if choices.integer(0, 1):
            as_rank = [choices.integer(0, min(1, group.rank_count - 1)) for _ in range(group.rank_count)]
            durations = ConstantDurations(_all_durations(group.durations)[0][:, as_rank])
            groups[number] = replace(group, durations=durations)
    return replace(program, groups=tuple(groups))


def _with_calls(choices: ChoiceSource, group: LoweredGroup, first: int, calls: int) -> LoweredGroup:
    """The group with so many calls at the end, on a stream of the coordinator, each after some task before."""
    deps = [_dependencies(choices, task, task + 1) for task in range(group.task_count, group.task_count + calls)]
    flat = [dep for each in deps for dep in each]
    ends = int(group.dep_ptr[-1]) + np.cumsum([len(each) for each in deps])
    rows = np.repeat(first + np.arange(calls)[:, None], group.rank_count, axis=1)
    drawn = _all_durations(group.durations)
    none = np.zeros((*drawn.shape[:1], calls, group.rank_count), dtype=np.int64)
    durations: Durations = DrawnDurations(np.concatenate([drawn, none], axis=1))
    if isinstance(group.durations, ConstantDurations):
        durations = ConstantDurations(np.concatenate([drawn[0], none[0]]))
    return replace(
        group,
        streams=(*group.streams, Stream("fused", "fuse")),
        names=(*group.names, *(f"call{number}" for number in range(calls))),
        stream_of=np.concatenate([group.stream_of, np.full(calls, len(group.streams))]),
        dep_ptr=np.concatenate([group.dep_ptr, ends]),
        dep_task=np.concatenate([group.dep_task, np.array([task for task, _ in flat], dtype=np.int64)]),
        dep_lag=np.concatenate([group.dep_lag, np.array([lag for _, lag in flat], dtype=np.int64)]),
        durations=durations,
        activity_tasks=np.concatenate([group.activity_tasks, group.task_count + np.arange(calls)]),
        instances=np.concatenate([group.instances, rows]),
    )


def _loaded(choices: ChoiceSource, program: LoweredProgram) -> LoweredProgram:
    """The program beside up to two other jobs, whose bursts are as long as its short tasks or as its long ones."""
    brief = choices.integer(0, 2) > 0
    job_of = np.array([choices.integer(0, 2) for _ in range(program.resource_count)])
    unit_ps = 1 if brief else 10**7
    background = []
    for number in range(2):
        share = _one_of(choices, (0.1, 0.5, 0.8, 0.37))
        on_ps, off_ps, phase_ps = (unit_ps * choices.integer(low, 60) for low in (1, 0, -40))
        background.append(Background(np.flatnonzero(job_of == number), share, on_ps, off_ps, phase_ps))
    return replace(_brief(program) if brief else program, background=tuple(background))


def _brief(program: LoweredProgram) -> LoweredProgram:
    """The program with its longest times cut to under a nanosecond: it ends within a few thousand short bursts."""
    groups = tuple(replace(g, durations=DrawnDurations(_all_durations(g.durations) % 1000)) for g in program.groups)
    activities = [replace(a, phases=tuple(_brief_phase(p) for p in a.phases)) for a in program.activities]
    return replace(program, groups=groups, activities=activities)


def _brief_phase(phase: Phase) -> Phase:
    return replace(phase, latency_ps=phase.latency_ps % 1000, work_ps=phase.work_ps % 1000)


def _all_durations(durations: Durations) -> IntArray:
    """Drawn durations ``[K, T, P]``; of durations that stay the same, one iteration's."""
    if isinstance(durations, ConstantDurations):
        return durations.values[None]
    if not isinstance(durations, DrawnDurations):
        raise TypeError("random programs have drawn or constant durations")
    return durations.values


class _Shell:
    """A group under construction: tasks in order, some of them activities with their instances."""

    def __init__(self, choices: ChoiceSource, number: int, ranks: IntArray, *, controlled: bool) -> None:
        self.number, self.ranks = number, ranks
        self.streams = tuple(
            _controlled(choices, f"s{i}") if controlled and _rarely(choices, 2) else Stream(f"s{i}")
            for i in range(choices.integer(1, 4))
        )
        self.tasks: list[IntArray | None] = [None] * choices.integer(1, 8)  # instances of an activity, None if private

    def insert(self, choices: ChoiceSource, instances: IntArray) -> None:
        """Put an activity task somewhere."""
        self.tasks.insert(choices.integer(0, len(self.tasks)), instances)

    def append(self, instances: IntArray) -> None:
        """Put an activity task at the end."""
        self.tasks.append(instances)

    def lowered(self, choices: ChoiceSource, iterations: int) -> LoweredGroup:
        """The finished group."""
        count = len(self.tasks)
        deps = [_dependencies(choices, task, count) for task in range(count)]
        activity_tasks = [t for t, instances in enumerate(self.tasks) if instances is not None]
        instances = [i for i in self.tasks if i is not None]
        flat = [d for each in deps for d in each]
        shape = (iterations, count, len(self.ranks))
        return LoweredGroup(
            name=f"g{self.number}",
            ranks=self.ranks,
            streams=self.streams,
            names=tuple(f"t{t}" for t in range(count)),
            stream_of=np.array([choices.integer(0, len(self.streams) - 1) for _ in range(count)], dtype=np.int64),
            dep_ptr=np.cumsum([0, *(len(d) for d in deps)]),
            dep_task=np.array([d for d, _ in flat], dtype=np.int64),
            dep_lag=np.array([lag for _, lag in flat], dtype=np.int64),
            durations=DrawnDurations(_durations(choices, shape)),
            activity_tasks=np.array(activity_tasks, dtype=np.int64),
            instances=np.array(instances, dtype=np.int64).reshape(len(instances), len(self.ranks)),
        )


def _controlled(choices: ChoiceSource, name: str) -> Stream:
    workers = choices.integer(1, 3)
    return Stream(name, "readiness") if workers == 1 else Stream(name, workers=workers)


def _durations(choices: ChoiceSource, shape: tuple[int, int, int]) -> IntArray:
    """Durations ``[K, T, P]``: a base per task, and on some tasks a draw per (iteration, rank)."""
    base = np.array([_time(choices) for _ in range(shape[1])], dtype=np.int64)
    spread = np.array([_one_of(choices, (0, 0, 3, 40)) for _ in range(shape[1])], dtype=np.int64)
    noise = np.random.default_rng(choices.integer(0, 2**32 - 1)).integers(0, spread[:, None] + 1, size=shape)
    durations: IntArray = base[:, None] + noise
    return durations


def _dependencies(choices: ChoiceSource, task: int, count: int) -> list[tuple[int, int]]:
    """Three dependencies at most: on earlier tasks, on any task with lag 1 or 2, rarely on a later one (a deadlock)."""
    deps = []
    for _ in range(choices.integer(0, 3)):
        lag = _one_of(choices, (0, 0, 0, 1, 2))
        if lag:
            deps.append((choices.integer(0, count - 1), lag))
        elif task:
            deps.append((choices.integer(0, task - 1), 0))
    if task + 1 < count and _rarely(choices, 60):
        deps.append((choices.integer(task, count - 1), 0))
    return deps


def _add_collective(
    choices: ChoiceSource, shells: list[_Shell], activities: list[Activity], number: int, resources: int
) -> None:
    """One collective over some groups; mostly appended in the same order everywhere, else placed anywhere."""
    world = sum(len(shell.ranks) for shell in shells)
    kind = choices.integer(0, 4)
    if kind == 0:
        instance = np.zeros(world, dtype=np.int64)
    elif kind == 1:
        instance = np.arange(world) % choices.integer(1, world)
    elif kind == 2:
        instance = np.arange(world) // choices.integer(1, world)
    elif kind == 3:
        instance = np.arange(world)
    else:
        instance = np.array([choices.integer(-1, 1) for _ in range(world)], dtype=np.int64)
    chosen = [shell for shell in shells if not _rarely(choices, 4)] or shells[:1]
    inside = np.zeros(world, dtype=np.bool_)
    for shell in chosen:
        inside[shell.ranks] = True
    used, compact = np.unique(np.where(inside & (instance >= 0), instance, -1), return_inverse=True)
    compact = compact - (1 if used[0] < 0 else 0) + len(activities)
    compact[~inside | (instance < 0)] = -1
    activities.extend(
        _activity(choices, f"c{number}.{i}", int((compact == i).sum()), resources)
        for i in range(len(activities), int(compact.max()) + 1)
    )
    anywhere = _rarely(choices, 3)
    for shell in chosen:
        if anywhere:
            shell.insert(choices, compact[shell.ranks])
        else:
            shell.append(compact[shell.ranks])


def _activity(choices: ChoiceSource, label: str, members: int, resources: int) -> Activity:
    phases = tuple(_phase(choices, resources) for _ in range(choices.integer(0 if members == 1 else 1, 3)))
    release = None
    if phases and _rarely(choices, 4):
        release = np.array([choices.integer(0, len(phases) - 1) for _ in range(members)], dtype=np.int64)
    return Activity(label, phases, release)


def _phase(choices: ChoiceSource, resources: int) -> Phase:
    numbers = [r for r in range(resources) if _rarely(choices, 2)]
    usage = [_one_of(choices, _USAGES) for _ in numbers]
    numbers_and_usage = np.array(numbers, dtype=np.int64), np.array(usage, dtype=np.float64)
    return Phase(_time(choices), _time(choices), *numbers_and_usage)
