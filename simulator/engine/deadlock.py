"""The error for a program in which nothing can go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from inputs.errors import DeadlockError
from simulator.engine.frontier import Frontier
from simulator.engine.instances import Membership
from simulator.lowered import LoweredProgram
from simulator.program import IntArray

_SHOWN = 8


class _Arrivals(Protocol):
    @property
    def arrived(self) -> IntArray: ...


def deadlock_error(
    program: LoweredProgram,
    frontiers: Sequence[Frontier],
    membership: Membership,
    arrivals: Callable[[int], _Arrivals],
) -> DeadlockError:
    """An error that names each waiting instance, the arrived and the missing ranks."""
    lines = []
    for iteration in sorted({k for frontier in frontiers for k in frontier.open_iterations()}):
        arrived = arrivals(iteration).arrived
        waiting = np.flatnonzero((arrived > 0) & (arrived < membership.size)).tolist()
        lines += [_describe(program, frontiers, membership, instance, iteration) for instance in waiting]
    if not lines:
        lines = [_first_stuck(program, frontier, number) for number, frontier in enumerate(frontiers)]
    return DeadlockError("deadlock: nothing can go on\n" + "\n".join(line for line in lines if line))


def _describe(
    program: LoweredProgram, frontiers: Sequence[Frontier], membership: Membership, instance: int, iteration: int
) -> str:
    here: list[int] = []
    missing: list[int] = []
    for part in membership.parts[instance]:
        group = program.groups[part.group]
        absent = np.isin(np.arange(group.rank_count), frontiers[part.group].unarrived(part.task, iteration))
        here += group.ranks[part.members][~absent[part.members]].tolist()
        missing += group.ranks[part.members][absent[part.members]].tolist()
    label = program.activities[instance].label
    return f"  {label} of iteration {iteration}: arrived {_some_ranks(here)}; missing {_some_ranks(missing)}"


def _first_stuck(program: LoweredProgram, frontier: Frontier, number: int) -> str:
    """The first task of a group that some rank never starts."""
    group = program.groups[number]
    for iteration in frontier.open_iterations():
        for task, name in enumerate(group.names):
            stuck = frontier.unarrived(task, iteration)
            if len(stuck):
                ranks = _some_ranks(group.ranks[stuck].tolist())
                return f"  task {name} of iteration {iteration} never has its inputs on {ranks}"
    return ""


def _some_ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(r) for r in sorted(ranks)[:_SHOWN])
    more = f", ... ({len(ranks)} in all)" if len(ranks) > _SHOWN else ""
    return f"ranks {shown}{more}" if ranks else "nobody"
