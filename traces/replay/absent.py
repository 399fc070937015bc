"""Waiting for ranks that have no trace, separated from transfer by the shortest transfer over steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.lowered import PS_PER_S
from simulator.operators import Delay
from simulator.program import IntArray, Program, Stream, sequenced_calls
from simulator.work import Work
from traces.replay.job import ReplayJob, amounts_of

CAUSE = "before a rank without a trace arrives"


@dataclass(frozen=True, slots=True)
class _Arrival:
    """Arrival of ranks without a trace at a collective: ``at_ps``, for collectives on one stream of a traced rank."""

    stream: str
    call: CollectiveCall
    at_ps: int
    end_ps: int


def with_late_absent_ranks(job: ReplayJob) -> ReplayJob:
    """The job in which ranks without a trace arrive at each collective so late that its transfer is the shortest.

    The k-th call of an operation in each step is taken for the same collective; its shortest length over the steps is
    the transfer, the longer times of the others are waiting for the absent ranks. They are a program of their own,
    which knows nothing but when to arrive, counted from the end of the collective before. As it stands the job takes
    the times of the trace.

    Args:
        job: the imported job: collectives at their measured times.
    """
    absent = np.setdiff1d(np.arange(job.world_size), job.ranks)
    measured = job.source.measured
    if not len(absent) or measured is None:
        return job.with_note("every rank has a trace: waiting is known already")
    shortest = _shortest_over_steps(job)
    arrivals = []
    transfers = dict(job.transfers_ps)
    for call in sequenced_calls(job.graph):
        if not np.any(job.graph.communicators[call.call.communicator][absent] >= 0):
            continue
        first = call.callers[0]
        program = job.graph.programs[first.program]
        end_ps = int(measured.result.records[0].groups[first.program].end_ps[first.task].max())
        transfers[call.key] = np.minimum(transfers[call.key], shortest[call.key])
        stream = f"{first.call.communicator}, {program.streams[program.stream_of[first.task]].name}"
        arrivals.append(_Arrival(stream, first.call, end_ps - int(transfers[call.key].max()), end_ps))
    if not arrivals:
        return job.with_note("no collective is over ranks without a trace")
    program, durations = _program(absent, arrivals)
    graph = replace(job.graph, programs=(*job.graph.programs, program))
    changed = replace(job, graph=graph, durations_ps=(*job.durations_ps, durations), transfers_ps=transfers)
    return changed.with_note("transfers are the shortest over the steps, the rest waiting for ranks without a trace")


def _shortest_over_steps(job: ReplayJob) -> dict[tuple[str, int], int]:
    """The shortest transfer over the steps of the call each call stands for, in ps."""
    same: dict[tuple[str, str, int], list[tuple[str, int]]] = {}
    seen: dict[tuple[str, str, str], int] = {}
    for call in sequenced_calls(job.graph):
        first, communicator = call.callers[0], call.call.communicator
        of_step = (communicator, call.call.op, job.graph.programs[first.program].sections[first.task])
        same.setdefault((communicator, call.call.op, seen.get(of_step, 0)), []).append(call.key)
        seen[of_step] = seen.get(of_step, 0) + 1
    least = {calls: min(int(job.transfers_ps[key].max()) for key in calls) for calls in map(tuple, same.values())}
    return {key: shortest for calls, shortest in least.items() for key in calls}


def _program(absent: IntArray, arrivals: Sequence[_Arrival]) -> tuple[Program, IntArray]:
    """The program of the absent ranks: on a stream for each that is traced, a delay and a collective in turn."""
    names, work, durations, stream_of = [], [], [], []
    streams: dict[str, int] = {}
    ended: dict[str, int] = {}
    columns = np.zeros(len(absent), dtype=np.int64)
    for number, own in enumerate(arrivals):
        delay_ps = max(own.at_ps - ended.get(own.stream, 0), 0)
        names += [f"late #{number}", f"{own.call.op} #{number}"]
        call = replace(own.call, peer_shares=None)
        of_mean: Work = amounts_of(replace(call, bytes=np.atleast_1d(np.mean(call.bytes))), columns)
        work += [Delay(delay_ps / PS_PER_S, CAUSE), of_mean if np.ndim(call.bytes) else call]
        durations += [delay_ps, 0]
        stream_of += [streams.setdefault(own.stream, len(streams))] * 2
        ended[own.stream] = own.end_ps
    count = len(names)
    program = Program(
        name="ranks without a trace",
        ranks=absent,
        streams=tuple(Stream(f"arrivals ({stream})") for stream in streams),
        names=tuple(names),
        sections=("absent",) * count,
        stream_of=np.array(stream_of, dtype=np.int64),
        dep_ptr=np.zeros(count + 1, dtype=np.int64),
        dep_task=np.zeros(0, dtype=np.int64),
        dep_lag=np.zeros(0, dtype=np.int64),
        work=tuple(work),
    )
    return program, np.repeat(np.array(durations, dtype=np.int64)[:, None], len(absent), axis=1)
