"""Lowering a task graph: durations of private tasks ``[T, P]``, activities of everything shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from inputs.errors import InputError, ProgramError
from simulator.categories import Category
from simulator.countable import require_countable_tasks
from simulator.lowered import Activity, FusedCalls, LoweredGroup, LoweredProgram
from simulator.lowering.collective import CollectiveLowering, LoweredCollective
from simulator.lowering.faster import faster
from simulator.lowering.fusing import faster_agreements, lower_coordinator
from simulator.lowering.machine import Machine
from simulator.lowering.private import durations_of, evened_part, member_instances, task_seconds
from simulator.lowering.result import CollectiveInfo, Lowering
from simulator.lowering.shared_work import SharedWork, shared_work_of
from simulator.lowering.variation import Variation
from simulator.lowering.warn import warnings_of
from simulator.network.background import background_of
from simulator.operators import Amount
from simulator.program import IntArray, Program, TaskGraph, sequenced_calls


def lower(
    graph: TaskGraph,
    machine: Machine,
    *,
    variation: Variation | None = None,
    improve: Mapping[str, float] | None = None,
) -> Lowering:
    """Turn amounts into times.

    Args:
        machine: the models; keep it between calls, it remembers which ranks form which communicator.
        variation: jitter and stragglers; none by default.
        improve: classes of `BOUND_CLASSES` and `WHOLE_CLASSES` made better by a factor, e.g. ``{"NIC": 1.1}``.
            ``input`` speeds up host and copy tasks of section ``input``; ``imbalance`` moves differences between ranks
            (durations, sizes of collectives) the part ``factor - 1`` of the way to their mean; ``communication``
            divides the time of collectives and ``compute`` that of kernels, latencies included.

    Raises:
        ProgramError: the programs contradict each other (`TaskGraph.check`), or have ranks the machine lacks.
        InputError: a class of ``improve`` is unknown, the GPU lacks a precision, or a task takes longer than can be
            counted.
    """
    graph.check()
    _check_ranks(graph, machine.topology.world_size, variation)
    improve = dict(improve or {})
    better = machine.improved(improve) if improve else machine
    varied = variation or Variation()
    seconds = [dict(task_seconds(program, better.compute, varied, improve)) for program in graph.programs]
    for program, of_program in zip(graph.programs, seconds, strict=True):
        require_countable_tasks(program, of_program)
    shared = _Activities(len(graph.programs))
    beside = shared_work_of(better, varied)
    joins = not (varied.varies or varied.straggler_ranks)
    calls = _lower_collectives(graph, better, shared, improve, beside, joins=joins)
    fused = _lower_coordinators(graph, better, shared, improve)
    private = _lower_shared(graph, seconds, shared, improve, beside)
    groups = [
        _group(program, rows, of_program, varied, graph.world_size)
        for program, rows, of_program in zip(graph.programs, shared.rows, private, strict=True)
    ]
    topology = machine.topology
    lowered = LoweredProgram(
        tuple(groups),
        shared.activities,
        topology.resource_count + len(beside.names),
        (*topology.resource_names, *beside.names),
        background_of(machine.background, topology),
        fused,
    )
    infos: tuple[CollectiveInfo, ...] = tuple(call.info for call in calls)
    return Lowering(lowered, infos, warnings_of(graph, better, seconds, calls))


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

    programs: int
    activities: list[Activity] = field(default_factory=list)
    rows: list[dict[int, IntArray]] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = [{} for _ in range(self.programs)]


def _lower_collectives(
    graph: TaskGraph,
    machine: Machine,
    shared: _Activities,
    improve: Mapping[str, float],
    beside: SharedWork,
    *,
    joins: bool,
) -> list[LoweredCollective]:
    lowered = []
    speed = improve.get("communication", 1.0)
    collectives = CollectiveLowering(graph.programs, machine.collectives, evened_part(improve))
    for sequenced, collective in collectives.lower_all(sequenced_calls(graph), joins=joins):
        numbers = np.where(collective.activity_of >= 0, collective.activity_of + len(shared.activities), -1)
        for caller in sequenced.callers:
            own = sequenced.instance[graph.programs[caller.program].ranks]
            shared.rows[caller.program][caller.task] = member_instances(numbers, own)
        of_rank = member_instances(collective.activity_of, sequenced.instance)
        shared.activities += faster(beside.collectives(collective.activities, of_rank), speed)
        lowered.append(collective)
    return lowered


def _lower_coordinators(
    graph: TaskGraph, machine: Machine, shared: _Activities, improve: Mapping[str, float]
) -> dict[str, FusedCalls]:
    """Add the activities that fused calls run as; the coordinators by name."""
    found, speed = {}, improve.get("communication", 1.0)
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


def _group(
    program: Program, rows: dict[int, IntArray], seconds: dict[int, Amount], variation: Variation, world_size: int
) -> LoweredGroup:
    return LoweredGroup.with_rows(program, durations_of(program, seconds, variation, world_size), rows)
