"""The host of a job: faster cores, fewer launches, launches as CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from inputs.errors import InputError
from simulator.categories import Category
from simulator.lowered import PS_PER_S
from simulator.operators import Delay
from simulator.program import IntArray, Program
from traces.description import WOKEN
from traces.replay.job import ReplayJob

GRAPH_LAUNCH_S = 2e-6
"""Host time to launch a CUDA graph, seconds; NVIDIA, "Constant Time Launch for Straight-Line CUDA Graphs" (2024),
recalled: 2 us and 200 ns for each node with CUDA 11.8, 2.5 us and 1 ns with 12.6 where a graph has no branches."""
GRAPH_NODE_S = 200e-9
"""Host time of each further node of a CUDA graph, seconds; source: `GRAPH_LAUNCH_S`, for graphs with branches."""


def on_host(program: Program) -> NDArray[np.bool_]:
    """Whether each task is host work ``[T]``: operators, calls, and the wake-up of threads."""
    pairs = zip(program.categories, program.work, strict=True)
    return np.array([c is Category.HOST or (isinstance(w, Delay) and w.cause == WOKEN) for c, w in pairs], dtype=bool)


def with_host_speed(job: ReplayJob, speed: float) -> ReplayJob:
    """The job with host work ``speed`` times as fast; waiting times follow from the replay.

    Raises:
        InputError: the speed is not above 0, or the trace has no host work.
    """
    return _scaled(job, [on_host(program) for program in job.graph.programs], 1.0 / _factor(speed, "--host-speed"))


def with_launches(job: ReplayJob, share: float) -> ReplayJob:
    """The job with ``share`` times the host work that ends in launches, as with fused or fewer operators.

    Raises:
        InputError: the share is not above 0, or the trace has no launches.
    """
    tasks = [_are(program, launches_of(program)) for program in job.graph.programs]
    return _scaled(job, tasks, _factor(share, "--launches"))


def _factor(value: float, option: str) -> float:
    if not (0 < value < float("inf")):
        raise InputError("is no factor", file=option, given=value, expected="a number above 0")
    return value


def _scaled(job: ReplayJob, tasks: list[NDArray[np.bool_]], factor: float) -> ReplayJob:
    _check(job, any(own.any() for own in tasks))
    durations = tuple(own.copy() for own in job.durations_ps)
    for own, chosen in zip(durations, tasks, strict=True):
        own[chosen] = np.rint(own[chosen] * factor)
    return replace(job, durations_ps=durations)


def _check(job: ReplayJob, present: bool) -> None:
    if not present:
        expected = "a trace with operators and CUDA calls of the host (Kineto)"
        raise InputError(
            "has no work of the host", file=job.source.files[0], given=job.source.format, expected=expected
        )


def launches_of(program: Program) -> IntArray:
    """Host tasks that end in a launch: device work depends on them."""
    host = on_host(program)
    host_streams = np.unique(program.stream_of[host])
    waiting = np.repeat(np.arange(program.task_count), np.diff(program.dep_ptr))
    to_device = ~np.isin(program.stream_of[waiting], host_streams)
    found: IntArray = np.unique(program.dep_task[to_device & host[program.dep_task]])
    return found


def with_cuda_graphs(job: ReplayJob) -> ReplayJob:
    """The job with the launches between two waits of a thread as one CUDA graph.

    Host work that ends in a launch takes the time of a node; the first after a wait, or in a step, takes the time of a
    graph; no time increases. Launches that the host waits for immediately stay outside graphs.

    Raises:
        InputError: the trace has no launches.
    """
    launches = [launches_of(program) for program in job.graph.programs]
    _check(job, any(len(own) for own in launches))
    durations, nodes, graphs = [], 0, 0
    for program, own, found in zip(job.graph.programs, job.durations_ps, launches, strict=True):
        changed = own.copy()
        for task, is_first in _captured(program, found):
            length_ps = round((GRAPH_LAUNCH_S if is_first else GRAPH_NODE_S) * PS_PER_S)
            changed[task] = np.minimum(changed[task], length_ps)
            graphs += program.rank_count * is_first
            nodes += program.rank_count
        durations.append(changed)
    whole = sum(len(own) * p.rank_count for own, p in zip(launches, job.graph.programs, strict=True))
    note = (
        f"{nodes:,} of {whole:,} launches are in {graphs:,} CUDA graphs: {GRAPH_LAUNCH_S * 1e6:g} us of the host for "
        f"each graph, {GRAPH_NODE_S * 1e9:g} ns for each further launch and the operators before it"
    )
    return replace(job, durations_ps=tuple(durations)).with_note(note)


def _captured(program: Program, launches: IntArray) -> Iterator[tuple[int, bool]]:
    """Launches inside graphs, each with a flag for the first launch of its graph."""
    launching, host = _are(program, launches), on_host(program)
    waits = _waits(program, host)
    for stream in np.unique(program.stream_of[host]).tolist():
        tasks = np.flatnonzero(program.stream_of == stream).tolist()
        section, inside = "", False
        for task, after in zip(tasks, [*tasks[1:], -1], strict=True):
            inside = inside and not waits[task] and program.sections[task] == section
            section = program.sections[task]
            awaited = after >= 0 and waits[after] and _awaits_launch(program, after, task)
            if launching[task] and not awaited:
                yield task, not inside
                inside = True


def _waits(program: Program, host: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each task is a host task that waits for device work or another thread ``[T]``."""
    found = host & (np.diff(program.dep_ptr) > 0)
    return np.asarray(found)


def _awaits_launch(program: Program, task: int, launch: int) -> bool:
    """Whether a task waits for the work of a launch."""
    for device, _ in program.dependencies(task):
        inputs = [d for d, _ in program.dependencies(device)]
        inputs += [e for d in inputs for e, _ in program.dependencies(d)]  # a delay precedes late work
        if launch in inputs:
            return True
    return False


def _are(program: Program, tasks: IntArray) -> NDArray[np.bool_]:
    found = np.zeros(program.task_count, dtype=bool)
    found[tasks] = True
    return found
