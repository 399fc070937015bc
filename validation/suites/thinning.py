"""Thinning of a measurement's rows: the median of repeats, and of a dense series of sizes the powers of two."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from validation.suites.collectives import MeasuredCollective

OCTAVE_PART = 0.1
"""A size further than this many octaves from a power of two stands for none."""

DENSE = 2.0
"""Sizes per octave above which a series is thinned: a few odd sizes carry information that the powers of two near them
do not."""


def thinned(rows: Iterable[MeasuredCollective]) -> list[MeasuredCollective]:
    """A row for each kept size of each source, shape and operation, with the median time of its repeats."""
    series: dict[tuple[object, ...], list[MeasuredCollective]] = defaultdict(list)
    for row in rows:
        series[row.source, row.op, *row.shape].append(row)
    kept = []
    for group in series.values():
        sizes = sorted({row.bytes for row in group})
        for size in _powers_of_two(sizes) if _is_dense(sizes) else sizes:
            repeats = [row for row in group if row.bytes == size]
            kept.append(replace(repeats[0], time_s=statistics.median(row.time_s for row in repeats)))
    return kept


def _is_dense(sizes: Sequence[float]) -> bool:
    octaves = math.log2(sizes[-1] / sizes[0])
    return len(sizes) - 1 > DENSE * max(octaves, 1.0)


def _powers_of_two(sizes: Sequence[float]) -> list[float]:
    """The size nearest to each power of two, where one is near."""
    nearest: dict[int, float] = {}
    for size in sizes:
        power = round(math.log2(size))
        if abs(math.log2(size) - power) <= min(OCTAVE_PART, _octaves_off(nearest.get(power), power)):
            nearest[power] = size
    return list(nearest.values())


def _octaves_off(size: float | None, power: int) -> float:
    return math.inf if size is None else abs(math.log2(size) - power)
