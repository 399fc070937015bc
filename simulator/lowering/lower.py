"""Lowering a task graph: durations of private tasks ``[T, P]``, activities of everything shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from inputs.errors import InputError, ProgramError
from simulator.lowered import Activity, LoweredGroup, LoweredProgram
from simulator.lowering.collective import LoweredCollective, lower_collective
from simulator.lowering.machine import Machine
from simulator.lowering.private import durations_of, fill, member_instances, task_seconds
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
        improve: classes of `BOUND_CLASSES` made better by a factor, e.g. ``{"NIC": 1.1}``. ``input`` speeds up host
            and copy tasks of section ``input``; ``imbalance`` moves differences between ranks (durations, sizes of
            collectives) the part ``factor - 1`` of the way to their mean.

    Raises:
        ProgramError: the programs contradict each other (`TaskGraph.check`), or have ranks the machine lacks.
        InputError: a class of ``improve`` is unknown, or the GPU lacks a precision.
    """
    graph.check()
    _check_ranks(graph, machine.topology.world_size, variation)
    improve = dict(improve or {})
    better = machine.improved(improve) if improve else machine
    varied = variation or Variation()
    seconds = [dict(task_seconds(program, better.compute, varied, improve)) for program in graph.programs]
    shared = _Activities(len(graph.programs))
    evened = improve.get("imbalance", 1.0) - 1.0
    timed = [dict(of_program) for of_program in seconds]
    beside = shared_work_of(better, varied)
    calls = _lower_collectives(graph, better, shared, evened, beside)
    for number, task, activities in beside.tasks(graph.programs, seconds, shared.activities, evened):
        del seconds[number][task]
        shared.rows[number][task] = len(shared.activities) + np.arange(len(activities))
        shared.activities += activities
    groups = [
        _group(program, shared.rows[number], seconds[number], varied, graph.world_size)
        for number, program in enumerate(graph.programs)
    ]
    topology = machine.topology
    program = LoweredProgram(
        tuple(groups),
        shared.activities,
        topology.resource_count + len(beside.names),
        (*topology.resource_names, *beside.names),
        background_of(machine.background, topology),
    )
    infos: tuple[CollectiveInfo, ...] = tuple(call.info for call in calls)
    return Lowering(program, infos, warnings_of(graph, better, timed, calls))


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
class _Activities:
    """Activities so far, and for each program the activity numbers of its ranks by task ``[P]``."""

    programs: int
    activities: list[Activity] = field(default_factory=list)
    rows: list[dict[int, IntArray]] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = [{} for _ in range(self.programs)]


def _lower_collectives(
    graph: TaskGraph, machine: Machine, shared: _Activities, evened: float, beside: SharedWork
) -> list[LoweredCollective]:
    lowered = []
    for sequenced in sequenced_calls(graph):
        collective = lower_collective(sequenced, graph.programs, machine.collectives, evened)
        numbers = np.where(collective.activity_of >= 0, collective.activity_of + len(shared.activities), -1)
        for caller in sequenced.callers:
            own = sequenced.instance[graph.programs[caller.program].ranks]
            shared.rows[caller.program][caller.task] = member_instances(numbers, own)
        of_rank = member_instances(collective.activity_of, sequenced.instance)
        shared.activities += beside.collectives(collective.activities, of_rank)
        lowered.append(collective)
    return lowered


def _group(
    program: Program, rows: dict[int, IntArray], seconds: dict[int, Amount], variation: Variation, world_size: int
) -> LoweredGroup:
    base_ps = fill(seconds, program.task_count, program.rank_count)
    return LoweredGroup.with_rows(program, durations_of(program, base_ps, variation, world_size), rows)
