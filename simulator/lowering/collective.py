"""Collectives of a task graph: the n-th call of all members on a communicator becomes an activity per instance."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simulator.collective_calls import CollectiveCall
from simulator.countable import require_countable
from simulator.lowered import Activity, Phase
from simulator.lowering.replicas import Replicas, replicas_of
from simulator.lowering.result import CollectiveInfo
from simulator.network.blocks import Block
from simulator.network.collectives import Call
from simulator.network.model import CollectiveModel, Timed
from simulator.operators import Amount, FloatArray
from simulator.program import IntArray, Program, SequencedCall


@dataclass(frozen=True, slots=True, eq=False)
class LoweredCollective:
    """Activities of a sequenced call: ``activity_of`` instance numbers, counted from ``activities[0]``."""

    activities: list[Activity]
    activity_of: IntArray
    info: CollectiveInfo
    outside_range: tuple[str, ...]

    def of_task(self, task: str, other: str) -> LoweredCollective:
        """An equal call of another task."""
        if task == other:
            return self
        activities = [replace(a, label=other + a.label.removeprefix(task)) for a in self.activities]
        return replace(self, activities=activities, info=replace(self.info, task=other))


class CollectiveLowering:
    """Lowers the calls of a task graph; equal calls, such as calls for tensors of one size, are lowered once."""

    def __init__(self, programs: Sequence[Program], model: CollectiveModel, evened: float) -> None:
        """No call is lowered yet.

        Args:
            evened: fraction by which uneven sizes move to their mean, 0 to 1.
        """
        self._programs, self._model, self._evened = programs, model, evened
        self._timed: dict[Hashable, TimedCall] = {}

    def lower_all(
        self, calls: Iterable[SequencedCall], *, joins: bool
    ) -> Iterator[tuple[SequencedCall, LoweredCollective]]:
        """Each call with its activities.

        Args:
            joins: whether instances of calls that replicas reach together are one activity, where replicas are alike.

        Raises:
            InputError: a call takes longer than can be counted.
        """
        found = [(call, self._time(call)) for call in calls]
        if joins:
            together = {id(timed): timed for _, timed in found if timed.sequenced.call.in_step}
            joins = all(replicas.alike for timed in together.values() for replicas in timed.replicas[1])
        known: dict[int, LoweredCollective] = {}
        for call, timed in found:
            if id(timed) not in known:
                known[id(timed)] = timed.lowered(self._model, joins=joins and call.call.in_step)
            yield call, known[id(timed)].of_task(timed.sequenced.task, call.task)

    def _time(self, sequenced: SequencedCall) -> TimedCall:
        """Times of a call; equal calls share them."""
        key = _key(sequenced)
        if key not in self._timed:
            timed = TimedCall.of(sequenced, self._programs, self._model, self._evened)
            if key is None:
                return timed
            self._timed[key] = timed
        return self._timed[key]


def _key(sequenced: SequencedCall) -> Hashable:
    """Key of calls with equal times; None where ranks have amounts of their own."""
    calls = [caller.call for caller in sequenced.callers]
    if any(np.ndim(call.bytes) or call.receive_weights is not None or call.peer_shares is not None for call in calls):
        return None
    call = sequenced.call
    sizes = tuple((caller.program, float(caller.call.bytes)) for caller in sequenced.callers)
    return (
        call.op,
        call.communicator,
        call.root,
        call.on_host,
        call.repeats,
        call.in_step,
        sizes,
        sequenced.instance.tobytes(),
    )


@dataclass(frozen=True, eq=False)
class TimedCall:
    """A sequenced call with the algorithms of its blocks.

    Attributes:
        sizes: bytes of all ranks, or of each ``[world_size]``; None where the call has none.
        calls: the call on each block; ``timed``: its algorithm; ``phases``: phases of its instances.
        programs: programs of the task graph.
    """

    sequenced: SequencedCall
    sizes: Amount | None
    calls: list[Call]
    timed: list[Timed]
    phases: list[list[tuple[Phase, ...]]]
    programs: Sequence[Program]

    @staticmethod
    def of(sequenced: SequencedCall, programs: Sequence[Program], model: CollectiveModel, evened: float) -> TimedCall:
        """Choose algorithms for all instances.

        Args:
            evened: fraction by which uneven sizes move to their mean, 0 to 1.

        Raises:
            InputError: it takes longer than can be counted.
        """
        sizes = _per_rank(sequenced, programs, "bytes")
        if sequenced.call.op != "all_to_all":
            sizes = _evened_over_instances(sizes, sequenced.instance >= 0, evened)
        weights = _per_rank(sequenced, programs, "receive_weights")
        peers = _peer_shares(sequenced, programs)
        calls = [
            _with_peers(_sized(sequenced.call, block, sizes, weights, evened), peers, evened)
            for block in model.blocks(sequenced.instance)
        ]
        timed = [model.time(call) for call in calls]
        require_countable(sequenced.task, sequenced.call.repeats * max(_slowest_s(chosen) for chosen in timed))
        phases = [model.phases(call, chosen) for call, chosen in zip(calls, timed, strict=True)]
        return TimedCall(sequenced, sizes, calls, timed, phases, programs)

    @cached_property
    def replicas(self) -> tuple[IntArray, list[Replicas]]:
        """Replicas of all blocks (`replicas_of`)."""
        return replicas_of([call.block for call in self.calls], self.phases, self.sequenced, self.programs)

    def lowered(self, model: CollectiveModel, *, joins: bool) -> LoweredCollective:
        """Activities of all instances, or of the instances of each program where they join."""
        sequenced, repeats = self.sequenced, self.sequenced.call.repeats
        activity_of = np.full(int(sequenced.instance.max()) + 1, -1, dtype=np.int64)
        activities: list[Activity] = []
        if joins:
            group_of, replicas = self.replicas
            activity_of[np.concatenate([call.block.number for call in self.calls])] = group_of
            activities += _joined(sequenced, replicas)
        else:
            for call, phases in zip(self.calls, self.phases, strict=True):
                activity_of[call.block.number] = len(activities) + np.arange(call.block.instance_count)
                alone = len(activity_of) == 1
                labels = _labels(sequenced.task, sequenced.call.communicator, call.block, alone=alone)
                activities += (
                    Activity(label, _repeated(own, repeats)) for label, own in zip(labels, phases, strict=True)
                )
        pairs = list(zip(self.calls, self.timed, strict=True))
        info = _info(sequenced, self.sizes, max(pairs, key=lambda pair: _slowest_s(pair[1])))
        notes = dict.fromkeys(note for call, chosen in pairs for note in model.outside_range(call, chosen))
        return LoweredCollective(activities, activity_of, info, tuple(notes))


def _joined(sequenced: SequencedCall, replicas: Sequence[Replicas]) -> Iterator[Activity]:
    """An activity for the replicas of each program."""
    for number, each in enumerate(replicas):
        label = f"{sequenced.task} [{sequenced.call.communicator}, replicas {number}]"
        phases = tuple(beside.joined() for beside in each.beside or ())
        yield Activity(label, _repeated(phases, sequenced.call.repeats))


def _repeated(phases: tuple[Phase, ...], repeats: int) -> tuple[Phase, ...]:
    """Phases of so many equal calls: each takes as many times as long."""
    if repeats == 1:
        return phases
    return tuple(
        replace(phase, latency_ps=phase.latency_ps * repeats, work_ps=phase.work_ps * repeats) for phase in phases
    )


def _slowest_s(timed: Timed) -> float:
    return float(timed.seconds.max())


def _labels(task: str, communicator: str, block: Block, *, alone: bool) -> Iterator[str]:
    """Name of each instance's activity."""
    return iter([task]) if alone else (f"{task} [{communicator} {number}]" for number in block.number)


def _per_rank(sequenced: SequencedCall, programs: Sequence[Program], field: str) -> Amount | None:
    """A size of the call: a scalar when all ranks agree, ``[world_size]`` when not, None when not given."""
    given = [(programs[c.program].ranks, getattr(c.call, field)) for c in sequenced.callers]
    values = [value for _, value in given if value is not None]
    if not values:
        return None
    if all(np.ndim(value) == 0 and value == values[0] for value in values):
        return float(values[0])
    full = np.zeros(len(sequenced.instance))
    for ranks, value in given:
        full[ranks] = 1.0 if value is None else value
    return full


def _sized(call: CollectiveCall, block: Block, sizes: Amount | None, weights: Amount | None, evened: float) -> Call:
    """The call on one block; members of an instance agree on the size except in an all_to_all."""
    size = np.asarray(0.0 if sizes is None else sizes)
    if call.op != "all_to_all" or (size.ndim == 0 and weights is None):
        per_instance = size[block.ranks].max(axis=1, keepdims=True) if size.ndim else np.full((1, 1), float(size))
        return Call(call.op, block, per_instance, root=call.root, on_host=call.on_host)
    sent = _evened(size[block.ranks] if size.ndim else np.full(block.ranks.shape, float(size)), evened)
    share = np.asarray(1.0 if weights is None else weights)
    share = share[block.ranks] if share.ndim else np.ones(block.ranks.shape)
    totals = share.sum(axis=1, keepdims=True)
    share = np.divide(share, totals, out=np.full(block.ranks.shape, 1.0 / block.size), where=totals > 0.0)
    means = sent.mean(axis=1, keepdims=True)
    return Call(call.op, block, means, sent, _evened(share, evened), on_host=call.on_host)


def _peer_shares(sequenced: SequencedCall, programs: Sequence[Program]) -> dict[int, FloatArray]:
    """Fraction of a rank's bytes for each member of its instance ``[n]``, by rank, if the call has them."""
    given = [(programs[c.program].ranks.tolist(), c.call.peer_shares) for c in sequenced.callers]
    return {rank: row for ranks, rows in given if rows is not None for rank, row in zip(ranks, rows, strict=True)}


def _with_peers(call: Call, peers: Mapping[int, FloatArray], evened: float) -> Call:
    """The call with the shares of each sender; senders without shares send evenly."""
    block = call.block
    if call.op != "all_to_all" or not peers or not any(rank in peers for rank in block.ranks.ravel().tolist()):
        return call
    even = np.full(block.size, 1.0 / block.size)
    shares = np.array([[peers.get(rank, even) for rank in ranks] for ranks in block.ranks.tolist()])
    sent = np.broadcast_to(call.bytes, block.ranks.shape) if call.send_bytes is None else call.send_bytes
    return replace(call, send_bytes=sent, peer_shares=shares + (1.0 / block.size - shares) * evened)


def _evened(values: FloatArray, part: float) -> FloatArray:
    """Move each row ``[I, n]`` the given part of the way to its mean."""
    moved: FloatArray = values + (values.mean(axis=1, keepdims=True) - values) * part
    return moved


def _evened_over_instances(sizes: Amount | None, members: NDArray[np.bool_], part: float) -> Amount | None:
    """Sizes ``[world_size]`` that differ between instances, the given part of the way to the mean over all members."""
    if sizes is None or np.ndim(sizes) == 0 or not part:
        return sizes
    return np.asarray(sizes + (np.asarray(sizes)[members].mean() - sizes) * part)


def _info(sequenced: SequencedCall, sizes: Amount | None, slowest: tuple[Call, Timed]) -> CollectiveInfo:
    call, timed = slowest
    per_rank = np.asarray(0.0 if sizes is None else sizes)
    members = sequenced.instance >= 0
    return CollectiveInfo(
        task=sequenced.task,
        op=sequenced.call.op,
        communicator=sequenced.call.communicator,
        algorithm=timed.algorithm.name,
        protocol=timed.protocol,
        bytes=float(per_rank[members].mean() if per_rank.ndim else per_rank) * sequenced.call.repeats,
        members=call.block.size,
        nodes=call.block.node_count,
        instances=len(np.unique(sequenced.instance[members])),
        alone_s=_slowest_s(timed) * sequenced.call.repeats,
        phases=tuple(
            (
                float(stage.latency_s.max()) * sequenced.call.repeats,
                float(stage.work.seconds.max()) * sequenced.call.repeats,
            )
            for stage in timed.stages
        ),
        straight=sequenced.call.root is not None and sequenced.call.op != "send",
    )
