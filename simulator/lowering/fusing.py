"""Lowering of coordinators: times of fused calls of any size, and of an agreement on what is ready."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from inputs.errors import ProgramError
from simulator.collective_calls import CollectiveCall, CollectiveOp
from simulator.lowered import PS_PER_S, Activity, FusedCalls, picoseconds
from simulator.lowering.machine import Machine
from simulator.network.collectives import Call
from simulator.operators import Copy
from simulator.program import Coordinator, IntArray, Program, TaskGraph

SMALLEST_BYTES = 1024
"""Smallest known size of a fused call; below it sizes do not matter."""

COPIES = 2.0
"""Copies of a fused tensor: into the buffer and back."""


def lower_coordinator(
    name: str, coordinator: Coordinator, graph: TaskGraph, machine: Machine, first_activity: int
) -> tuple[FusedCalls, list[Activity]]:
    """A coordinator's calls, and the activities that fused calls run as.

    Args:
        first_activity: number of the first of these activities.

    Raises:
        ProgramError: its streams have other tasks than all_reduces on its communicator, or that has not one instance.
    """
    call_of = [_calls(name, coordinator, program) for program in graph.programs]
    sizes_of = np.zeros(max(int(calls.max(initial=-1)) for calls in call_of) + 1, dtype=np.int64)
    for program, numbers in zip(graph.programs, call_of, strict=True):
        for task in np.flatnonzero(numbers >= 0).tolist():
            work = program.work[task]
            if isinstance(work, CollectiveCall):
                sizes_of[numbers[task]] = round(float(np.max(work.bytes)))
    machine = _with_algorithm(machine, coordinator.algorithm)
    sizes = _sizes(max(round(coordinator.fusion_bytes), int(sizes_of.max(initial=1))))
    on_host = coordinator.copies_in == "host"
    calls = [_call("all_reduce", size, coordinator, graph, machine, on_host=on_host) for size in sizes]
    model = machine.collectives
    activities = [
        Activity(f"{name} {size} B", model.phases(call, model.time(call))[0])
        for size, call in zip(sizes, calls, strict=True)
    ]
    fused = FusedCalls(
        call_of=tuple(call_of),
        bytes=sizes_of,
        sizes=np.array(sizes, dtype=np.int64),
        activities=first_activity + np.arange(len(sizes)),
        fusion_bytes=round(coordinator.fusion_bytes),
        cycle_ps=picoseconds(coordinator.cycle_s),
        negotiation_ps=picoseconds(negotiation_s(coordinator, graph, machine)),
        copy_ps_per_byte=_copy_s_per_byte(coordinator, machine) * PS_PER_S,
        announcement_ps=picoseconds(announcement_s(coordinator, graph, machine)),
    )
    return fused, activities


def negotiation_s(coordinator: Coordinator, graph: TaskGraph, machine: Machine) -> float:
    """Seconds in which all ranks agree on what is ready.

    The coordinator gathers the lengths of the ranks' lists of requests and then the lists, and broadcasts the length
    of the answer and the answer; a list of one request stands for all. One that announces each buffer gathers only.
    """
    members = _members(coordinator, graph)
    ops: list[tuple[CollectiveOp, int]] = [("gather", members)]
    if not coordinator.announces_each:
        ops.append(("broadcast", 1))
    sizes = (_LENGTH_BYTES, coordinator.request_bytes)
    return sum(_seconds(op, size * messages, coordinator, graph, machine) for op, messages in ops for size in sizes)


def announcement_s(coordinator: Coordinator, graph: TaskGraph, machine: Machine) -> float:
    """Seconds in which the coordinator sends a request to each other rank, one after the other."""
    if not coordinator.announces_each:
        return 0.0
    size = coordinator.request_bytes * _members(coordinator, graph)
    return _seconds("scatter", size, coordinator, graph, machine)


def _members(coordinator: Coordinator, graph: TaskGraph) -> int:
    return int(np.sum(graph.communicators[coordinator.communicator] >= 0))


def _seconds(op: CollectiveOp, size: float, coordinator: Coordinator, graph: TaskGraph, machine: Machine) -> float:
    call = _call(op, size, coordinator, graph, machine, on_host=True)
    return float(machine.collectives.time(call).seconds.max())


def _with_algorithm(machine: Machine, algorithm: str | None) -> Machine:
    """The machine with this all_reduce."""
    if algorithm is None:
        return machine
    forced = {**machine.collectives.algorithms, "all_reduce": algorithm}
    return replace(machine, collectives=replace(machine.collectives, algorithms=forced))


_LENGTH_BYTES = 4.0
"""A length is an int (MPI_INT)."""


def _call(
    op: CollectiveOp, size: float, coordinator: Coordinator, graph: TaskGraph, machine: Machine, *, on_host: bool
) -> Call:
    instance = graph.communicators[coordinator.communicator]
    found = len(np.unique(instance[instance >= 0]))
    if found != 1:
        name = coordinator.communicator
        raise ProgramError(f"calls on {name!r} are fused", given=f"{found} instances", expected="one")
    (block,) = machine.collectives.blocks(instance)
    return Call(op, block, np.full((1, 1), float(size)), on_host=on_host)


def _calls(name: str, coordinator: Coordinator, program: Program) -> IntArray:
    """Number of the call that each task of a program makes ``[T]``; -1: none of the coordinator's."""
    found = np.full(program.task_count, -1, dtype=np.int64)
    count = 0
    for task, stream in enumerate(program.stream_of.tolist()):
        if program.streams[stream].controller != name:
            continue
        work = program.work[task]
        if not (
            isinstance(work, CollectiveCall)
            and work.op == "all_reduce"
            and work.communicator == coordinator.communicator
        ):
            raise ProgramError(
                f"task {program.names[task]!r} is on a stream whose calls are fused",
                given=type(work).__name__,
                expected=f"an all_reduce on {coordinator.communicator!r}",
            )
        found[task] = count
        count += 1
    return found


def _sizes(largest: int) -> list[int]:
    """Sizes from `SMALLEST_BYTES` to the first that holds the largest call: powers of two, and 1.5 times them."""
    sizes = [SMALLEST_BYTES]
    while sizes[-1] < largest:
        before = sizes[-1]
        is_power = before & (before - 1) == 0
        sizes.append(before * 3 // 2 if is_power else before * 4 // 3)
    return sizes


def _copy_s_per_byte(coordinator: Coordinator, machine: Machine) -> float:
    """Seconds for a byte to be copied into the buffer and back."""
    size = 1e9
    if coordinator.copies_in == "device":
        without_starts = machine.compute.without_starts()
        return COPIES * float(without_starts.duration_s(Copy(size, "d2d"))) / size
    return COPIES * float(machine.collectives.transport.copy_seconds(size)) / size


def faster_agreements(calls: FusedCalls, speed: float) -> FusedCalls:
    """The calls with agreements, announcements and copies divided by ``speed``."""
    if speed == 1.0:
        return calls
    return replace(
        calls,
        negotiation_ps=round(calls.negotiation_ps / speed),
        announcement_ps=round(calls.announcement_ps / speed),
        copy_ps_per_byte=calls.copy_ps_per_byte / speed,
    )
