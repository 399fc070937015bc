"""Overlap of a device's work: as traced, nothing, or all communication."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import Delay, Measured
from simulator.program import Program, Stream
from simulator.work import Work
from traces.replay.job import ReplayJob


def without_overlap(job: ReplayJob) -> ReplayJob:
    """The job with all work of a device on one stream, in the order in which it ended.

    The time saved by overlap is the difference to the trace. Tasks are numbered in the order of their measured ends,
    inputs first, so one stream in that order contradicts no dependency of the rank. Delays before work (launch latency)
    hold up that work only: they stay beside, behind what was before them on their stream.
    """
    programs = tuple(_serial(program) for program in job.graph.programs)
    return replace(job, graph=replace(job.graph, programs=programs))


def _serial(program: Program) -> Program:
    of_task = zip(program.stream_of.tolist(), program.categories, strict=True)
    host = {stream for stream, category in of_task if category in (Category.HOST, Category.INPUT)}
    stream_of = program.stream_of.copy()
    edges = list(_edges(program))
    last: dict[int, int] = {}
    for task, (stream, work) in enumerate(zip(program.stream_of.tolist(), program.work, strict=True)):
        if stream in host:
            continue
        if not isinstance(work, Delay):
            stream_of[task] = len(program.streams)
            last[stream] = task
        elif stream in last:
            edges.append((task, last[stream], 0))
    streams = (*program.streams, Stream("all device streams"))
    return _with_edges(replace(program, streams=streams, stream_of=stream_of), edges)


def _edges(program: Program) -> Iterator[tuple[int, int, int]]:
    """Dependencies as (task, its input, lag)."""
    waiting = np.repeat(np.arange(program.task_count), np.diff(program.dep_ptr)).tolist()
    return zip(waiting, program.dep_task.tolist(), program.dep_lag.tolist(), strict=True)


def _with_edges(program: Program, edges: Iterable[tuple[int, int, int]]) -> Program:
    table = np.array(sorted(set(edges)), dtype=np.int64).reshape(-1, 3)
    counts = np.bincount(table[:, 0], minlength=program.task_count)
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return replace(program, dep_ptr=ptr, dep_task=table[:, 1].copy(), dep_lag=table[:, 2].copy())


def with_communication_hidden(job: ReplayJob) -> ReplayJob:
    """The job in which nothing but communication waits for communication: a bound for any overlap.

    Collectives still begin when their inputs are there and follow each other on their streams; what used their results
    does not wait for them, as if a pipeline handed it those of the iteration before.
    """
    programs = tuple(_hidden(program) for program in job.graph.programs)
    return replace(job, graph=replace(job.graph, programs=programs))


def _hidden(program: Program) -> Program:
    communicates = [_communicates(work) for work in program.work]
    return _with_edges(program, (e for e in _edges(program) if communicates[e[0]] or not communicates[e[1]]))


def _communicates(work: Work) -> bool:
    return isinstance(work, CollectiveCall) or (isinstance(work, Measured) and work.category is Category.COMM)
