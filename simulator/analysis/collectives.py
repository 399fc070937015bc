"""The collectives of an iteration: sizes, durations over ranks, and the rates nccl-tests would print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.analysis.totals import total_ps
from simulator.analysis.window import measured_window, record_of
from simulator.collective_calls import CollectiveCall, CollectiveOp, busbw_factor
from simulator.engine.records import EngineRun, GroupTimes
from simulator.lowered import PS_PER_S
from simulator.operators import FloatArray
from simulator.program import IntArray, Program, SequencedCall, TaskGraph, sequenced_calls


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
        bytes: nccl-tests' size, the mean over ranks when it is uneven; ranks that only receive count received bytes.
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
        algorithms: name of the algorithm of each collective, by the name of its first caller's task.
        iteration: a recorded iteration; default: the one of `measured_window`. Its tasks are taken whole.
    """
    record = record_of(result, measured_window(result).iteration if iteration is None else iteration)
    whole = {(c.program, c.task): sequenced for sequenced in sequenced_calls(graph) for c in sequenced.callers}
    return tuple(
        _row(graph, (number, task), whole[number, task], membership, times, algorithms or {})
        for number, (program, times) in enumerate(zip(graph.programs, record.groups, strict=True))
        for task, membership in _calls(program, graph.communicators)
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


def _calls(program: Program, communicators: Mapping[str, IntArray]) -> Iterator[tuple[int, _Membership]]:
    """Tasks of a program that are collectives in which its ranks take part."""
    memberships = {name: _membership(program, instance_of) for name, instance_of in communicators.items()}
    for task, call in enumerate(program.work):
        if isinstance(call, CollectiveCall) and (membership := memberships[call.communicator]) is not None:
            yield task, membership


def _row(
    graph: TaskGraph,
    caller: tuple[int, int],
    sequenced: SequencedCall,
    membership: _Membership,
    times: GroupTimes,
    algorithms: Mapping[str, str],
) -> CollectiveRow:
    """The row of one task; ``caller`` is the numbers of its program and of the task."""
    program, task = graph.programs[caller[0]], caller[1]
    [call] = [c.call for c in sequenced.callers if c.program == caller[0]]
    takes_part = membership.takes_part
    own = times.classes.of_rank[takes_part]
    waiting_ps = times.class_waiting_ps[task][own]
    duration_ps = (times.class_end_ps[task] - times.class_start_ps[task])[own]
    transfer_s = _spread(duration_ps - waiting_ps)
    sizes = _on_ranks(call.bytes, program)[takes_part]
    if call.op == "all_to_all" and not sizes.any():
        sizes = _received(graph, sequenced)[program.ranks][takes_part]
    algbw = float(sizes.mean()) / transfer_s.mean if transfer_s.mean > 0 else None
    return CollectiveRow(
        group=program.name,
        task=program.names[task],
        section=program.sections[task],
        op=call.op,
        communicator=call.communicator,
        algorithm=algorithms.get(sequenced.task, ""),
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


def _on_ranks(amount: object, program: Program) -> FloatArray:
    """An amount of a call for each rank of a program ``[P]``."""
    return np.broadcast_to(np.asarray(amount, dtype=np.float64), (len(program.ranks),))


def _received(graph: TaskGraph, sequenced: SequencedCall) -> FloatArray:
    """Bytes that each rank receives in an all_to_all without shares of peers, own part included ``[world_size]``.

    All members of an instance send to a rank by its weight, evenly where none has one.
    """
    sent, weights = np.zeros(len(sequenced.instance)), np.ones(len(sequenced.instance))
    for caller in sequenced.callers:
        program, call = graph.programs[caller.program], caller.call
        sent[program.ranks] = _on_ranks(call.bytes, program)
        if call.receive_weights is not None:
            weights[program.ranks] = _on_ranks(call.receive_weights, program)
    received = np.zeros(len(sequenced.instance))
    for instance in np.unique(sequenced.instance[sequenced.instance >= 0]):
        members = sequenced.instance == instance
        whole = weights[members].sum()
        shares = weights[members] / whole if whole > 0.0 else 1.0 / members.sum()
        received[members] = sent[members].sum() * shares
    return received


def _spread(times_ps: IntArray) -> RankSpread:
    mean_ps = total_ps(times_ps) / len(times_ps)
    values = (mean_ps, float(np.median(times_ps)), int(times_ps.min()), int(times_ps.max()))
    return RankSpread(*(value / PS_PER_S for value in values))
