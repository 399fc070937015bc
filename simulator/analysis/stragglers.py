"""Stragglers: the member that arrives last in each collective."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.engine.records import EngineRun
from simulator.lowered import PS_PER_S, LoweredProgram
from simulator.program import IntArray


@dataclass(frozen=True, slots=True)
class Straggler:
    """One rank as a member of collectives.

    Attributes:
        rank: global rank.
        collectives: number of collectives with others that it takes part in.
        last: number of those in which it arrived last (ties: the lowest rank).
        held_up_s: rank-seconds the others waited in these.
        waited_s: seconds it waited itself, in all.
    """

    rank: int
    collectives: int
    last: int
    held_up_s: float
    waited_s: float


def stragglers(lowered: LoweredProgram, result: EngineRun) -> tuple[Straggler, ...]:
    """A row per rank, those that hold up the others most first.

    Args:
        lowered: the lowered program, with the members of each collective.
        result: the run; its last recorded iteration is taken.
    """
    size = int(result.ranks.max()) + 1
    took_part, last, held_ps, waited_ps = (np.zeros(size, dtype=np.int64) for _ in range(4))
    instance, rank, arrival, waiting = _arrivals(lowered, result)
    order = np.lexsort((rank, -arrival, instance))
    first = np.flatnonzero(np.diff(instance[order], prepend=-1))
    members = np.diff(first, append=len(order))
    waits = np.add.reduceat(waiting[order], first) if len(first) else waiting[:0]
    shared = members > 1
    latest = rank[order][first]
    np.add.at(last, latest[shared], 1)
    np.add.at(held_ps, latest[shared], waits[shared])
    np.add.at(waited_ps, rank, waiting)
    np.add.at(took_part, rank[order], np.repeat(shared, members).astype(np.int64))
    rows = [
        Straggler(int(r), int(took_part[r]), int(last[r]), int(held_ps[r]) / PS_PER_S, int(waited_ps[r]) / PS_PER_S)
        for r in np.sort(result.ranks)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.held_up_s, row.rank)))


def _arrivals(lowered: LoweredProgram, result: EngineRun) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Instance, rank, arrival and waiting in ps of every member of every collective."""
    columns: list[tuple[IntArray, IntArray, IntArray, IntArray]] = []
    for group, times in zip(lowered.groups, result.records[-1].groups, strict=True):
        row, column = np.nonzero(group.instances >= 0)
        task = group.activity_tasks[row]
        columns.append(
            (
                group.instances[row, column],
                group.ranks[column],
                times.class_start_ps[task, times.classes.of_rank[column]],
                times.class_waiting_ps[task, times.classes.of_rank[column]],
            )
        )
    instance, rank, arrival, waiting = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return instance, rank, arrival, waiting
