"""Lowering a task graph: durations of private tasks ``[T, P]``, activities of everything shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from inputs.errors import InputError, ProgramError
from simulator.lowered import Activity, LoweredGroup, LoweredProgram
from simulator.lowering.collective import LoweredCollective, lower_collective, sequenced_calls
from simulator.lowering.cores import Cores
from simulator.lowering.host_traffic import directions_used, host_activities, shared_tasks
from simulator.lowering.machine import Machine
from simulator.lowering.private import durations_of, fill, member_instances, task_seconds
from simulator.lowering.result import CollectiveInfo, Lowering
from simulator.lowering.variation import Variation
from simulator.lowering.warn import warnings_of
from simulator.network.background import background_of
from simulator.operators import Amount
from simulator.program import IntArray, Program, TaskGraph


def lower(
    graph: TaskGraph,
    machine: Machine,
    *,
    variation: Variation | None = None,
    improve: Mapping[str, float] | None = None,
) -> Lowering:
    """Turn amounts into times.

    Args:
        graph: programs and communicators.
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
    cores = Cores.of(machine.topology, better.compute)
    calls = _lower_collectives(graph, better, shared, evened, cores)
    if cores is None:
        _lower_host_traffic(graph, better, shared, seconds, evened)
    else:
        _lower_on_cores(graph, cores, shared, seconds, varied, [call.info.moving_s for call in calls])
    groups = [
        _group(program, shared.rows[number], seconds[number], varied, graph.world_size)
        for number, program in enumerate(graph.programs)
    ]
    topology = machine.topology
    program = LoweredProgram(
        tuple(groups),
        shared.activities,
        topology.resource_count + (0 if cores is None else len(cores.names)),
        topology.resource_names if cores is None else (*topology.resource_names, *cores.names),
        background_of(machine.background, topology),
        0 if cores is None else cores.slice_ps,
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
    graph: TaskGraph, machine: Machine, shared: _Activities, evened: float, cores: Cores | None
) -> list[LoweredCollective]:
    lowered = []
    for number, sequenced in enumerate(sequenced_calls(graph)):
        collective = lower_collective(sequenced, graph.programs, machine.collectives, evened)
        numbers = np.where(collective.activity_of >= 0, collective.activity_of + len(shared.activities), -1)
        for program, task, _ in sequenced.callers:
            own = sequenced.instance[graph.programs[program].ranks]
            shared.rows[program][task] = member_instances(numbers, own)
        if cores is None:
            shared.activities += collective.activities
        else:
            of_rank = member_instances(collective.activity_of, sequenced.instance)
            for instance, activity in enumerate(collective.activities):
                shared.activities.append(cores.collective(activity, np.flatnonzero(of_rank == instance), number))
        lowered.append(collective)
    return lowered


def _lower_host_traffic(
    graph: TaskGraph, machine: Machine, shared: _Activities, seconds: list[dict[int, Amount]], evened: float
) -> None:
    """Traffic between GPUs and hosts over links that others use too: an activity per rank each."""
    used = directions_used(shared.activities, machine)
    for number, program in enumerate(graph.programs):
        for task in shared_tasks(program, machine, used):
            first = len(shared.activities)
            shared.activities += host_activities(program, task, machine, seconds[number].pop(task), evened)
            shared.rows[number][task] = first + np.arange(program.rank_count)


def _lower_on_cores(
    graph: TaskGraph,
    cores: Cores,
    shared: _Activities,
    seconds: list[dict[int, Amount]],
    variation: Variation,
    moving_s: Sequence[float],
) -> None:
    """Kernels of ranks on CPUs: an activity per rank each."""
    if variation.varies:
        raise InputError("kernels on CPUs share cores, and do not vary", key="variation", expected="no jitter")
    for number, program in enumerate(graph.programs):
        for task, activities in cores.kernels(program, seconds[number], moving_s).items():
            del seconds[number][task]
            shared.rows[number][task] = len(shared.activities) + np.arange(program.rank_count)
            shared.activities += activities


def _group(
    program: Program, rows: dict[int, IntArray], seconds: dict[int, Amount], variation: Variation, world_size: int
) -> LoweredGroup:
    tasks = sorted(rows)
    base_ps = fill(seconds, program.task_count, program.rank_count)
    instances = np.stack([rows[task] for task in tasks]) if tasks else np.zeros((0, program.rank_count), dtype=np.int64)
    durations = durations_of(program, base_ps, variation, world_size)
    return LoweredGroup.of(program, durations, np.array(tasks, dtype=np.int64), instances)
