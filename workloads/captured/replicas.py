"""Ranks of a captured job that are replicas: they reach their collectives together, iteration by iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from simulator.agreement import calls_by_communicator
from simulator.program import IntArray, Program


def in_step(communicators: Mapping[str, IntArray], groups: Sequence[Sequence[int]]) -> bool:
    """Whether ranks of each group are replicas: all instances with ranks of a group have the same mix of groups.

    Ranks of a group do the same, and wait for members that do the same, so that none gets ahead of another.

    Args:
        communicators: instance of each rank by name ``[world_size]``; -1: the rank is in none.
        groups: ranks of each program.
    """
    return all(_alike(instance, groups) for instance in communicators.values())


def _alike(instance: IntArray, groups: Sequence[Sequence[int]]) -> bool:
    """Whether all instances that a group is in have as many ranks of each group."""
    count = int(instance.max(initial=-1)) + 1
    if not count:
        return True
    of_group = [instance[np.asarray(ranks)] for ranks in groups]
    mix = np.stack([np.bincount(own[own >= 0], minlength=count) for own in of_group], axis=1)
    for number, own in enumerate(of_group):
        rows = mix[mix[:, number] > 0]
        if len(rows) and (np.any(own < 0) or np.any(rows != rows[0])):
            return False
    return True


def repeats(programs: Sequence[Program], communicators: Mapping[str, IntArray], *, together: bool) -> bool:
    """Whether no rank gets ahead of another by more than an iteration: `simulator.program.TaskGraph.repeats`.

    All ranks are members of one call, or ranks are replicas whose programs have calls with each other, each with each.

    Args:
        together: whether ranks of each program are replicas.
    """
    calls = [set(calls_by_communicator(program.work)) for program in programs]
    everywhere = set.intersection(*calls)
    if any(np.all(communicators[name] == communicators[name][0]) for name in everywhere):
        return True
    return together and all(
        any(_meet(communicators[name], programs[one], programs[other]) for name in calls[one] & calls[other])
        for one, other in combinations(range(len(programs)), 2)
    )


def _meet(instance: IntArray, one: Program, other: Program) -> bool:
    """Whether two programs have ranks in one instance."""
    return bool(np.isin(instance[one.ranks], instance[other.ranks]).any())
