"""Lanes of a stream whose tasks overlap (`simulator.program.Stream.workers`): drawn bars must not."""

from __future__ import annotations

import numpy as np

from simulator.program import IntArray


def lanes_of(start_ps: IntArray, end_ps: IntArray) -> IntArray:
    """The lane of each bar ``[N]``: the first one that is free when it starts, so 0 for all where none overlap."""
    found = np.zeros(len(start_ps), dtype=np.int64)
    order = np.lexsort((end_ps, start_ps))
    if np.all(start_ps[order][1:] >= np.maximum.accumulate(end_ps[order])[:-1]):
        return found
    free_from: list[int] = []
    for bar in order.tolist():
        start, end = int(start_ps[bar]), int(end_ps[bar])
        lane = next((lane for lane, free in enumerate(free_from) if free <= start), len(free_from))
        free_from[lane : lane + 1] = [end]
        found[bar] = lane
    return found


def lane_name(stream: str, lane: int) -> str:
    """Name of a lane: that of its stream, with a number from the second lane on."""
    return stream if lane == 0 else f"{stream} {lane + 1}"
