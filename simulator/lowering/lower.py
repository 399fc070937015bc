"""Lowering a task graph: durations of private tasks ``[T, P]``, activities of everything shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

import numpy as np

from inputs.errors import InputError, ProgramError
from simulator.categories import Category
from simulator.countable import require_countable_tasks
from simulator.equality import same
from simulator.lowered import Activity, FusedCalls, LoweredGroup, LoweredProgram
from simulator.lowering.collective import CollectiveLowering, LoweredCollective
from simulator.lowering.faster import faster
from simulator.lowering.fusing import faster_agreements, lower_coordinator
from simulator.lowering.machine import Machine
from simulator.lowering.private import durations_of, evened_part, member_instances, task_seconds
from simulator.lowering.result import CollectiveInfo, Lowering
from simulator.lowering.shared_work import HostLinks, SharedWork, shared_work_of
from simulator.lowering.variation import Variation
from simulator.lowering.warn import warnings_of
from simulator.network.background import background_of
from simulator.operators import Amount
from simulator.program import IntArray, Program, SequencedCall, TaskGraph, sequenced_calls

T = TypeVar("T")


def lower(
    graph: TaskGraph,
    machine: Machine,
    *,
    variation: Variation | None = None,
    improve: Mapping[str, float] | None = None,
) -> Lowering:
    """Turn amounts into times, once; arguments and errors as of `Lowerer`."""
    return Lowerer(graph, machine, variation).lower(improve)


class Lowerer:
    """Lowers one task graph, perhaps several times with classes improved.

    Parts whose models are equal with and without an improvement are lowered once.
    """

    def __init__(self, graph: TaskGraph, machine: Machine, variation: Variation | None = None) -> None:
        """Nothing is lowered yet.

        Args:
            machine: the models; keep it between graphs, it remembers which ranks form which communicator.
            variation: jitter and stragglers; none by default.

        Raises:
            ProgramError: the programs contradict each other (`TaskGraph.check`), or have ranks the machine lacks.
            InputError: a straggler is no rank.
        """
        graph.check()
        _check_ranks(graph, machine.topology.world_size, variation)
        self._graph, self._machine, self._variation = graph, machine, variation or Variation()
        self._calls = tuple(sequenced_calls(graph))
        self._joins = not (self._variation.varies or self._variation.straggler_ranks)
        self._kept: dict[str, tuple[object, object]] = {}

    def is_of(self, graph: TaskGraph, machine: Machine, variation: Variation) -> bool:
        """Whether it lowers this very graph on this very machine, with the same variation."""
        return self._graph is graph and self._machine is machine and self._variation == variation

    def lower(self, improve: Mapping[str, float] | None = None) -> Lowering:
        """Turn amounts into times.

        Args:
            improve: classes of `BOUND_CLASSES` and `WHOLE_CLASSES` made better by a factor, e.g. ``{"NIC": 1.1}``.
                ``input`` speeds up host and copy tasks of section ``input``; ``imbalance`` moves differences between
                ranks (durations, sizes of collectives) the part ``factor - 1`` of the way to their mean;
                ``communication`` divides the time of collectives, ``compute`` the time of kernels, latencies included.

        Raises:
            InputError: a class of ``improve`` is unknown, the GPU lacks a precision, or a task takes longer than can
                be counted.
        """
        improve = dict(improve or {})
        better = self._machine.improved(improve) if improve else self._machine
        factors = [improve.get(name, 1.0) for name in ("imbalance", "input", "communication", "compute")]
        inputs = (better.compute, better.collectives, factors)
        return self._once("all", inputs, lambda: self._lowered(better, improve))

    def _once(self, part: str, inputs: object, make: Callable[[], T]) -> T:
        """A part, made from its inputs; the part of the first inputs is kept."""
        kept = self._kept.get(part)
        if kept is not None and same(kept[0], inputs):
            return cast("T", kept[1])
        made = make()
        self._kept.setdefault(part, (inputs, made))
        return made

    def _lowered(self, better: Machine, improve: Mapping[str, float]) -> Lowering:
        graph, varied = self._graph, self._variation
        evened, speed = evened_part(improve), improve.get("communication", 1.0)
        beside = shared_work_of(better, varied)
        seconds = self._once(
            "seconds", (better.compute, evened, improve.get("input", 1.0)), lambda: self._seconds(better, improve)
        )
        on_cores = None if isinstance(beside, HostLinks) else beside
        met = self._once(
            "collectives",
            (better.collectives, evened, on_cores),
            lambda: _collectives(graph, self._calls, better, evened, beside, joins=self._joins),
        )
        shared = _Activities(faster(met.activities, speed), [dict(rows) for rows in met.rows])
        fused = _lower_coordinators(graph, better, shared, speed)
        private = _lower_shared(graph, seconds, shared, improve, beside)
        groups = [
            LoweredGroup.with_rows(program, durations_of(program, of_program, varied, graph.world_size), rows)
            for program, rows, of_program in zip(graph.programs, shared.rows, private, strict=True)
        ]
        topology, names = better.topology, beside.names
        lowered = LoweredProgram(
            tuple(groups),
            shared.activities,
            topology.resource_count + len(names),
            (*topology.resource_names, *names) if names else topology.resource_names,
            background_of(better.background, topology),
            fused,
        )
        infos: tuple[CollectiveInfo, ...] = tuple(call.info for call in met.calls)
        return Lowering(lowered, infos, warnings_of(graph, better, seconds, met.calls))

    def _seconds(self, better: Machine, improve: Mapping[str, float]) -> list[dict[int, Amount]]:
        """Duration of every task that is no collective, by program and task."""
        programs = self._graph.programs
        seconds = [dict(task_seconds(program, better.compute, self._variation, improve)) for program in programs]
        for program, of_program in zip(programs, seconds, strict=True):
            require_countable_tasks(program, of_program)
        return seconds


def _check_ranks(graph: TaskGraph, world_size: int, variation: Variation | None) -> None:
    highest = max(int(program.ranks.max(initial=-1)) for program in graph.programs)
    if highest >= world_size:
        raise ProgramError("the task graph has a rank the machine lacks", given=highest, expected=f"below {world_size}")
    missing = [rank for rank in (variation.straggler_ranks if variation else ()) if not 0 <= rank < world_size]
    if missing:
        raise InputError(
            "no such rank",
            key="variation.straggler_ranks",
            given=missing[0],
            expected=f"0 to {world_size - 1}",
        )


@dataclass(slots=True)
class _Kernels:
    """Speed of kernels: a factor on the kernels of all programs; other tasks stay the same."""

    programs: Sequence[Program]
    factor: float
    kernels: list[tuple[bool, ...]] = field(init=False)

    def __post_init__(self) -> None:
        looked_at = self.programs if self.factor != 1.0 else ()
        self.kernels = [tuple(c is Category.COMPUTE for c in program.categories) for program in looked_at]

    def speed(self, program: int, task: int) -> float:
        """Factor of a task."""
        return self.factor if self.kernels and self.kernels[program][task] else 1.0

    def faster(self, program: int, seconds: Mapping[int, Amount]) -> dict[int, Amount]:
        """Seconds of tasks; seconds of kernels are divided by the factor."""
        return {task: of_task / self.speed(program, task) for task, of_task in seconds.items()}


@dataclass(slots=True)
class _Activities:
    """Activities so far, and for each program the activity numbers of its ranks by task ``[P]``."""

    activities: list[Activity]
    rows: list[dict[int, IntArray]]


@dataclass(frozen=True, slots=True)
class _Collectives:
    """All collectives of a graph: the calls, their activities, and the numbers of these by program and task ``[P]``."""

    calls: tuple[LoweredCollective, ...]
    activities: tuple[Activity, ...]
    rows: tuple[Mapping[int, IntArray], ...]


def _collectives(
    graph: TaskGraph,
    sequenced_of: Sequence[SequencedCall],
    machine: Machine,
    evened: float,
    beside: SharedWork,
    *,
    joins: bool,
) -> _Collectives:
    calls: list[LoweredCollective] = []
    found = _Activities([], [{} for _ in graph.programs])
    collectives = CollectiveLowering(graph.programs, machine.collectives, evened)
    for sequenced, collective in collectives.lower_all(sequenced_of, joins=joins):
        numbers = np.where(collective.activity_of >= 0, collective.activity_of + len(found.activities), -1)
        for caller in sequenced.callers:
            own = sequenced.instance[graph.programs[caller.program].ranks]
            found.rows[caller.program][caller.task] = member_instances(numbers, own)
        of_rank = member_instances(collective.activity_of, sequenced.instance)
        found.activities += beside.collectives(collective.activities, of_rank)
        calls.append(collective)
    return _Collectives(tuple(calls), tuple(found.activities), tuple(found.rows))


def _lower_coordinators(graph: TaskGraph, machine: Machine, shared: _Activities, speed: float) -> dict[str, FusedCalls]:
    """Add the activities that fused calls run as, so many times faster; the coordinators by name."""
    found = {}
    for name, coordinator in graph.coordinators.items():
        calls, activities = lower_coordinator(name, coordinator, graph, machine, len(shared.activities))
        found[name] = faster_agreements(calls, speed)
        shared.activities += faster(activities, speed)
    return found


def _lower_shared(
    graph: TaskGraph,
    seconds: Sequence[dict[int, Amount]],
    shared: _Activities,
    improve: Mapping[str, float],
    beside: SharedWork,
) -> list[dict[int, Amount]]:
    """Add the activities of tasks that may meet others; seconds of all other tasks, by program and task."""
    private = [dict(of_program) for of_program in seconds]
    kernels = _Kernels(graph.programs, improve.get("compute", 1.0))
    for number, task, activities in beside.tasks(graph.programs, seconds, shared.activities, evened_part(improve)):
        del private[number][task]
        shared.rows[number][task] = len(shared.activities) + np.arange(len(activities))
        shared.activities += faster(activities, kernels.speed(number, task))
    return [kernels.faster(number, of_program) for number, of_program in enumerate(private)]
