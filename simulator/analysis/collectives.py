"""The collectives of an iteration: sizes, durations over ranks, and the rates nccl-tests would print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simulator.analysis.window import measured_window, record_of
from simulator.engine.records import EngineRun, GroupTimes
from simulator.lowered import PS_PER_S
from simulator.operators import CollectiveCall, CollectiveOp, busbw_factor
from simulator.program import IntArray, Program, TaskGraph


@dataclass(frozen=True, slots=True)
class RankSpread:
    """Seconds over ranks."""

    mean: float
    median: float
    min: float
    max: float


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """One collective task of a group, over the ranks that take part.

    Attributes:
        group: program group.
        task: task name.
        section: part of the iteration.
        op: all_reduce, all_to_all...
        communicator: name of the communicator.
        algorithm: name of the algorithm that carried it, empty when unknown.
        instances: communicators of that name these ranks are in.
        ranks: members of the largest of them.
        bytes: nccl-tests' size, the mean over ranks when it is uneven.
        bytes_max: the largest rank's.
        duration_s: time from the rank's arrival to its end.
        waiting_s: the part before the last member's arrival.
        transfer_s: the rest.
        algbw_bytes_per_s: bytes over the mean transfer time; None when that is zero.
        busbw_bytes_per_s: algbw times `busbw_factor`.
    """

    group: str
    task: str
    section: str
    op: CollectiveOp
    communicator: str
    algorithm: str
    instances: int
    ranks: int
    bytes: float
    bytes_max: float
    duration_s: RankSpread
    waiting_s: RankSpread
    transfer_s: RankSpread
    algbw_bytes_per_s: float | None
    busbw_bytes_per_s: float | None


def collective_table(
    graph: TaskGraph, result: EngineRun, *, algorithms: Mapping[str, str] | None = None, iteration: int | None = None
) -> tuple[CollectiveRow, ...]:
    """One row per collective task, in program order.

    Args:
        graph: the programs, in the run's group order, and their communicators.
        algorithms: name of the algorithm of each collective task, by task name.
        iteration: a recorded iteration; default: the one of `measured_window`. Its tasks are taken whole.
    """
    record = record_of(result, measured_window(result).iteration if iteration is None else iteration)
    return tuple(
        row
        for program, times in zip(graph.programs, record.groups, strict=True)
        for row in _rows(program, times, graph.communicators, algorithms or {})
    )


@dataclass(frozen=True, slots=True)
class _Membership:
    """Members of a group that take part in the collectives of a communicator: ``takes_part`` is ``[P]``."""

    takes_part: NDArray[np.bool_]
    instances: int
    ranks: int


def _membership(program: Program, instance_of: IntArray) -> _Membership | None:
    """The group's part in a communicator (``instance_of`` each global rank), None when it has none."""
    own = instance_of[program.ranks]
    if not np.any(own >= 0):
        return None
    numbers = np.unique(own[own >= 0])
    sizes = np.bincount(instance_of[instance_of >= 0])
    return _Membership(own >= 0, len(numbers), int(sizes[numbers].max()))


def _rows(
    program: Program, times: GroupTimes, communicators: Mapping[str, IntArray], algorithms: Mapping[str, str]
) -> Iterator[CollectiveRow]:
    memberships = {name: _membership(program, instance_of) for name, instance_of in communicators.items()}
    for task, call in enumerate(program.work):
        if isinstance(call, CollectiveCall) and (membership := memberships[call.communicator]) is not None:
            row = _row(program, task, call, membership, times)
            yield replace(row, algorithm=algorithms.get(row.task, ""))


def _row(
    program: Program, task: int, call: CollectiveCall, membership: _Membership, times: GroupTimes
) -> CollectiveRow:
    """The row of one task, its algorithm still empty."""
    takes_part = membership.takes_part
    waiting_ps = times.waiting_ps[task, takes_part]
    duration_ps = times.end_ps[task, takes_part] - times.start_ps[task, takes_part]
    transfer_s = _spread(duration_ps - waiting_ps)
    sizes = np.broadcast_to(np.asarray(call.bytes, dtype=np.float64), takes_part.shape)[takes_part]
    algbw = float(sizes.mean()) / transfer_s.mean if transfer_s.mean > 0 else None
    return CollectiveRow(
        group=program.name,
        task=program.names[task],
        section=program.sections[task],
        op=call.op,
        communicator=call.communicator,
        algorithm="",
        instances=membership.instances,
        ranks=membership.ranks,
        bytes=float(sizes.mean()),
        bytes_max=float(sizes.max()),
        duration_s=_spread(duration_ps),
        waiting_s=_spread(waiting_ps),
        transfer_s=transfer_s,
        algbw_bytes_per_s=algbw,
        busbw_bytes_per_s=None if algbw is None else algbw * busbw_factor(call.op, membership.ranks),
    )


def _spread(times_ps: IntArray) -> RankSpread:
    mean_ps = int(times_ps.sum()) / len(times_ps)
    values = (mean_ps, float(np.median(times_ps)), int(times_ps.min()), int(times_ps.max()))
    return RankSpread(*(value / PS_PER_S for value in values))
