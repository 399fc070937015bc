"""Runs a job in the engine: with the measured transfers, or with collectives on a simulated machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from inputs.errors import InputError
from simulator.collective_calls import CollectiveCall
from simulator.counted_run import counted_run
from simulator.engine import EngineRun, RunOptions
from simulator.lowered import PS_PER_S, Activity, ConstantDurations, LoweredGroup, LoweredProgram, phase
from simulator.lowering import Machine, lower
from simulator.lowering.private import member_instances
from simulator.operators import Measured
from simulator.program import IntArray, Program, sequenced_calls
from simulator.work import Work, category_of
from traces.imported import ABSENT, Gap, Imported, RankStep
from traces.measured import MeasuredRun
from traces.replay.job import UNKNOWN, ReplayJob, StepPlace, TaskOffset, with_work


def replayed(job: ReplayJob, machine: Machine | None = None) -> Imported:
    """Run a job; the times it then has stand in the shape of an import, for the same analyses and exports.

    Args:
        job: job to run.
        machine: takes the collectives and tasks without a time in the trace; None: transfers as measured.

    Raises:
        InputError: the trace has no times and no machine is given, or ranks are missing on it.
        DeadlockError: the trace's dependencies contradict each other.
    """
    lowered = _as_measured(job) if machine is None else _on_machine(job, machine)
    result = counted_run(lowered, RunOptions(max_iterations=1))
    steps = tuple(step_of(job, step, result) for step in job.steps)
    absent = np.setdiff1d(np.arange(job.world_size), job.ranks).tolist()
    kept = [gap for gap in job.source.gaps if gap.what != ABSENT or absent]
    return replace(
        job.source,
        graph=job.graph,
        world_size=job.world_size,
        measured=MeasuredRun(job.graph, lowered, result),
        steps=steps,
        gaps=(*kept, *(Gap(note, 0, ()) for note in job.notes)),
    )


def _as_measured(job: ReplayJob) -> LoweredProgram:
    """Durations of the job, transfers as latencies."""
    if not job.transfers_ps and any(isinstance(w, CollectiveCall) for p in job.graph.programs for w in p.work):
        raise InputError(
            "has no times to replay", file=job.source.files[0], given=job.source.format, expected="--cluster NAME"
        )
    if any(np.any(own == UNKNOWN) for own in job.durations_ps):
        raise InputError(
            "has tasks without a time", file=job.source.files[0], given=job.source.format, expected="--cluster NAME"
        )
    activities: list[Activity] = []
    rows: list[dict[int, IntArray]] = [{} for _ in job.graph.programs]
    for call in sequenced_calls(job.graph):
        known = np.unique(call.instance[call.instance >= 0]).tolist()
        activity_of = np.full(int(call.instance.max()) + 1, -1, dtype=np.int64)
        for instance in known:
            activity_of[instance] = len(activities)
            label = call.task if len(known) == 1 else f"{call.task} [{call.call.communicator} {instance}]"
            activities.append(Activity(label, (phase(latency_ps=int(job.transfers_ps[call.key][instance])),)))
        for caller in call.callers:
            own = call.instance[job.graph.programs[caller.program].ranks]
            rows[caller.program][caller.task] = member_instances(activity_of, own)
    groups = tuple(
        LoweredGroup.with_rows(program, ConstantDurations(durations), of_program)
        for program, durations, of_program in zip(job.graph.programs, job.durations_ps, rows, strict=True)
    )
    return LoweredProgram(groups, activities, 0)


def _on_machine(job: ReplayJob, machine: Machine) -> LoweredProgram:
    """Collectives, and tasks without a time, by the machine's models; all else has the job's durations."""
    changed = [list(_held(*own)) for own in zip(job.graph.programs, job.durations_ps, strict=True)]
    return lower(with_work(job.graph, changed), machine).program


def _held(program: Program, durations: IntArray) -> Iterator[Work]:
    """Work that takes the job's durations on any machine."""
    for work, own in zip(program.work, durations, strict=True):
        if isinstance(work, CollectiveCall) or np.any(own == UNKNOWN):
            yield work
        else:
            alike = own.min() == own.max()
            yield Measured(float(own[0]) / PS_PER_S if alike else own / PS_PER_S, category_of(work))


def step_of(job: ReplayJob, step: StepPlace, result: EngineRun) -> RankStep:
    """Times of a step in a run of the job."""
    number, column = job.place_of(step.rank)
    times = result.records[0].groups[number]

    def at(place: TaskOffset) -> int:
        edge = times.end_ps if place.at_end else times.start_ps
        return int(edge[place.task, column]) + place.offset_ps

    return RankStep(step.rank, step.number, step.name, at(step.begin), at(step.end))
