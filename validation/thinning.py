"""Which rows of a measurement are kept: powers of two, the median of repeats."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from validation.collectives import MeasuredCollective

OCTAVE_PART = 0.1
"""A size further than this many octaves from a power of two stands for none."""


def thinned(rows: Iterable[MeasuredCollective]) -> list[MeasuredCollective]:
    """For each source, shape, operation and power of two the rows of the nearest size, as one with the median time."""
    groups: dict[tuple[object, ...], list[MeasuredCollective]] = defaultdict(list)
    for row in rows:
        groups[row.source, row.op, *row.shape, round(math.log2(row.bytes))].append(row)
    kept = []
    for key, group in groups.items():
        power = float(key[-1])  # type: ignore[arg-type]

        def distance(row: MeasuredCollective, power: float = power) -> float:
            return abs(math.log2(row.bytes) - power)

        nearest = min(map(distance, group))
        if nearest <= OCTAVE_PART:
            chosen = [row for row in group if distance(row) == nearest]
            kept.append(replace(chosen[0], time_s=statistics.median(row.time_s for row in chosen)))
    return kept
