"""Sends of a captured job: pairs of ranks, as communicators of two members.

A communicator has a rank in one instance only. Where ranks send to the next one and receive from the one before, pairs
that follow each other are therefore in two communicators, in turn, and a program whose ranks are in both is divided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from inputs.errors import InputError
from simulator.program import IntArray
from workloads.captured.records import Collective, RankProgram, RecordedJob
from workloads.graph.messages import pairs


@dataclass(frozen=True, slots=True)
class PairsOfRanks:
    """Pairs of a job's sends.

    Attributes:
        communicators: name -> instance of each rank ``[world_size]``, as `simulator.program.TaskGraph` has it.
        parts: for each program, ranks whose sends have the same communicators, ascending.
        name_of: (program, part, number of a work) -> communicator.
    """

    communicators: Mapping[str, IntArray]
    parts: tuple[tuple[tuple[int, ...], ...], ...]
    name_of: Mapping[tuple[int, int, int], str]


def pairs_of(job: RecordedJob) -> PairsOfRanks:
    """Communicators of all sends of a job.

    Raises:
        InputError: a rank sends to none, or receives from none, of its communicator.
    """
    members = {name: _instance_of(instances) for name, instances in job.communicators.items()}
    senders: dict[str, set[tuple[int, int]]] = {}
    parts, names = [], {}
    for number, program in enumerate(job.programs):
        groups: dict[tuple[str, ...], list[int]] = {}
        works = [*_sends(job, program)]
        for rank in program.ranks:
            found = []
            for _, call in works:
                sender = _sender(job, call, rank, members[call.communicator])
                name = _name(call, sender, members[call.communicator][rank])
                senders.setdefault(name, set()).add((sender, sender + call.peer))
                found.append(name)
            groups.setdefault(tuple(found), []).append(rank)
        parts.append(tuple(map(tuple, groups.values())))
        for part, own in enumerate(groups):
            names.update({(number, part, work): name for (work, _), name in zip(works, own, strict=True)})
    return PairsOfRanks({name: _pairs(job, found) for name, found in senders.items()}, tuple(parts), names)


def _sends(job: RecordedJob, program: RankProgram) -> Iterator[tuple[int, Collective]]:
    """Sends of a program, each work once."""
    for number in dict.fromkeys(task.work for task in program.tasks):
        work = job.works[number]
        if isinstance(work, Collective) and work.op == "send":
            yield number, work


def _instance_of(instances: Iterable[Iterable[int]]) -> dict[int, frozenset[int]]:
    """The members of each rank's instance."""
    return {rank: own for each in instances for own in (frozenset(each),) for rank in own}


def _sender(job: RecordedJob, call: Collective, rank: int, members: Mapping[int, frozenset[int]]) -> int:
    """The rank that sends in a call of ``rank``."""
    own = members[rank]
    sends, receives = rank + call.peer in own, rank - call.peer in own
    if not sends and not receives:
        raise InputError(
            f"{job.name}: rank {rank} sends to no member of {call.communicator}",
            key="works.peer",
            given=call.peer,
            expected="the receiver less the sender, both members",
        )
    return rank - call.peer if receives and (call.receives or not sends) else rank


def _name(call: Collective, sender: int, members: frozenset[int]) -> str:
    """Communicator of a pair: successive pairs use two communicators in turn."""
    before, depth = sender - call.peer, 0
    while before in members:
        before, depth = before - call.peer, depth + 1
    return f"{call.communicator}_to_{call.peer:+d}_{'ab'[depth % 2]}"


def _pairs(job: RecordedJob, found: Iterable[tuple[int, int]]) -> IntArray:
    ones, others = zip(*sorted(found), strict=True)
    return pairs(job.world_size, np.array(ones, dtype=np.int64), np.array(others, dtype=np.int64))
