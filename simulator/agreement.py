"""Agreement of the members of a communicator on their collective calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.work import Work

OwnCalls: TypeAlias = Sequence[tuple[int, CollectiveCall]]
"""The calls of a program on one communicator: task number and call, in program order."""


def calls_by_communicator(works: Sequence[Work]) -> dict[str, list[tuple[int, CollectiveCall]]]:
    """The collective calls among the work of tasks, by communicator."""
    calls: dict[str, list[tuple[int, CollectiveCall]]] = {}
    for task, work in enumerate(works):
        if isinstance(work, CollectiveCall):
            calls.setdefault(work.communicator, []).append((task, work))
    return calls


def first_disagreement(one: OwnCalls, other: OwnCalls) -> int | None:
    """Number of the first call at which two members of a communicator differ; None where they agree.

    Calls agree in op, dtype, root, on_host, repeats, in_step and bytes; bytes may differ in an all_to_all, and where
    they are given for each rank.
    Where one member makes fewer calls and these agree, the number is theirs.
    """
    for number, ((_, a), (_, b)) in enumerate(zip(one, other, strict=False)):
        is_free = a.op == "all_to_all" or np.ndim(a.bytes) > 0 or np.ndim(b.bytes) > 0
        fixed = ((x.op, x.dtype, x.root, x.on_host, x.repeats, x.in_step) for x in (a, b))
        if next(fixed) != next(fixed) or not (is_free or a.bytes == b.bytes):
            return number
    return None if len(one) == len(other) else min(len(one), len(other))


Member = TypeVar("Member")


@dataclass(frozen=True, slots=True)
class Disagreement(Generic[Member]):
    """Two members of a communicator whose calls differ.

    Attributes:
        members: the first member, and the one that differs from it.
        calls: calls of each.
        number: number of the first call that differs.
    """

    members: tuple[Member, Member]
    calls: tuple[OwnCalls, OwnCalls]
    number: int

    @property
    def is_in_count(self) -> bool:
        """Whether one member makes fewer calls, and these agree."""
        return self.number == min(map(len, self.calls))


def disagreements(members: Iterable[tuple[int, Member, OwnCalls]]) -> Iterator[Disagreement[Member]]:
    """Members that disagree with the first member of their instance, from (instance, member, its calls)."""
    first: dict[int, tuple[Member, OwnCalls]] = {}
    agree: dict[tuple[int, int], OwnCalls] = {}  # two programs may be members of many instances
    for instance, member, calls in members:
        other, theirs = first.setdefault(instance, (member, calls))
        pair = (id(theirs), id(calls))
        if other is member or pair in agree:
            continue
        number = first_disagreement(theirs, calls)
        if number is None:
            agree[pair] = calls
        else:
            yield Disagreement((other, member), (theirs, calls), number)
