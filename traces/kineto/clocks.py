"""Clocks of ranks: whether they agree, and by how much to move them where they do not.

A collective ends on no rank before the last rank has arrived. Where a trace says otherwise the ranks' clocks differ;
collectives end together, so the ends measure the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.program import IntArray
from traces.rank_tasks import RankTasks

SLACK_PS = 2_000_000
"""2 us, the largest error of a difference of two time stamps that are cut to whole microseconds."""


def clock_offsets_ps(ranks: Sequence[RankTasks], members: Mapping[str, Sequence[int] | None]) -> IntArray:
    """Offset by which each rank's clock is ahead ``[R]``, ps; zeros where the clocks agree or no collective shows it.

    Args:
        ranks: tasks of each rank; they make the same calls on each group.
        members: ranks of each process group, None for all.
    """
    offsets: list[list[int]] = [[] for _ in ranks]
    broken = False
    for group, inside in members.items():
        own = [place for place, tasks in enumerate(ranks) if inside is None or tasks.rank in inside]
        if len(own) < 2:
            continue
        calls = [_calls(ranks[place], group) for place in own]
        count = min(len(c) for c in calls)
        starts = np.stack([ranks[place].start_ps[c[:count]] for place, c in zip(own, calls, strict=True)])
        ends = np.stack([ranks[place].end_ps[c[:count]] for place, c in zip(own, calls, strict=True)])
        broken = broken or bool(np.any(ends.min(axis=0) + SLACK_PS < starts.max(axis=0)))
        ahead = ends - np.median(ends, axis=0).astype(np.int64)
        for place, row in zip(own, ahead, strict=True):
            offsets[place].extend(row.tolist())
    if not broken:
        return np.zeros(len(ranks), dtype=np.int64)
    return np.array([int(np.median(o)) if o else 0 for o in offsets], dtype=np.int64)


def _calls(tasks: RankTasks, group: str) -> IntArray:
    found = [t for t, work in enumerate(tasks.work) if isinstance(work, CollectiveCall) and work.communicator == group]
    return np.array(found, dtype=np.int64)
