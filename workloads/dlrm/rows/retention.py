"""Embedding rows that a cache still holds when they are touched again.

An iteration looks up the tables one after the other, then updates them, and passes over activations and gradients. What
it touches in all decides how many iterations back a cache reaches that keeps what was touched last: as far as all of
them together touch no more than it holds. A row is in it if

- the lookups of its table in the same pass have touched it before, and not too many others since; or
- one of the iterations that the cache reaches has.

The caches of processors keep nearly what was touched last, not exactly: reach is smoothed by half an iteration. They
hold and miss lines: a row that fills none brings those beside it along (`in_lines`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from simulator.operators import FloatArray
from workloads.dlrm.laws.popularity import Popularity

LINE_BYTES = 64
"""Size of a line, bytes: the unit of processor caches and of memory transfers."""
CACHE_BYTES = np.array([0.0, *(2.0**20 * 2.0 ** np.arange(9))])
"""Sizes of caches for which misses are counted ``[G]``: none, 1 MiB to 256 MiB."""
WINDOWS = np.append(0.0, np.geomspace(2.0**-4, 2.0**12, 49))
"""Numbers of iterations for which the touched bytes are computed ``[W]``."""
SMOOTHED = 0.5
"""Width of the transition, iterations: a cache that reaches back so much less than one iteration may have lost the rows
of that iteration."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Rows of a shard that an iteration touches.

    Attributes:
        popularity: popularity of the rows of its whole table.
        part: fraction of that table's rows, and of their lookups, in the shard; above 0.
        lookups: lookups of an iteration in the shard.
        state_bytes: size of the optimizer's state of a row.
    """

    popularity: Popularity
    part: float
    lookups: float
    row_bytes: float
    state_bytes: float = 0.0

    def distinct(self, iterations: FloatArray | float) -> FloatArray:
        """Rows that so many iterations ``[...]`` touch ``[...]``."""
        return np.asarray(self.part * self.popularity.distinct(self.lookups / self.part * np.asarray(iterations)))

    def held_bytes(self, iterations: FloatArray) -> FloatArray:
        """Bytes of lines of rows and states that so many iterations ``[...]`` touch ``[...]``."""
        rows, states = (self._lines(size, iterations) for size in (self.row_bytes, self.state_bytes))
        return np.asarray(rows + states)

    def new_bytes(self, size: float, back: FloatArray) -> FloatArray:
        """Bytes of lines that an iteration touches and none of the ``back [...]`` iterations before it has ``[...]``.

        Args:
            size: bytes of a row, or of its state.
            back: number of iterations before it.
        """
        return self._lines(size, back + 1.0) - self._lines(size, back)

    def _lines(self, size: float, iterations: FloatArray) -> FloatArray:
        """Bytes of lines that rows, or their states, of ``size`` bytes lie in that so many iterations touch.

        Their neighbours come along: as if rows beside each other were as popular, that many more had been looked up.
        """
        return (
            np.asarray(size * self.distinct(in_lines(size) / size * iterations)) if size else np.zeros_like(iterations)
        )

    def fetched_bytes(self, size: float, missed: FloatArray) -> FloatArray:
        """Bytes of lines that memory delivers for an update, of caches of `CACHE_BYTES` ``[G]``.

        Args:
            size: bytes of a row, or of its state.
            missed: bytes of touched lines that caches do not serve ``[G]``; without a cache each row has its own.
        """
        return np.append(in_lines(size) * self.distinct(1.0), missed[1:])

    def missed_bytes(self, back: FloatArray) -> FloatArray:
        """Bytes of rows looked up that caches of `CACHE_BYTES` do not serve, which reach ``back [G]`` iterations.

        Whole lines: without a cache all that lookups touch.
        """
        most = self.lookups * in_lines(self.row_bytes)
        held, share = self.popularity.missed(most / self.row_bytes / self.part)
        alone = most * np.interp(CACHE_BYTES / (self.row_bytes * self.part), held, share)
        first = self.new_bytes(self.row_bytes, np.zeros(1))
        return np.asarray(np.minimum(np.maximum(alone - first, 0.0) + self.new_bytes(self.row_bytes, back), most))


def in_lines(size: float) -> float:
    """Bytes of the lines that rows of ``size`` bytes lie in, on the average: rows follow each other without a gap.

    They begin at multiples of the greatest common divisor of their size and that of a line.
    """
    return 0.0 if not size else size + LINE_BYTES - gcd(int(size), LINE_BYTES)


def reach(touched: Sequence[Touched], other_bytes: float) -> FloatArray:
    """Iterations whose rows and other data caches of `CACHE_BYTES` hold ``[G]``.

    Args:
        touched: shards of a rank.
        other_bytes: other bytes that an iteration touches.
    """
    rows = sum((t.held_bytes(WINDOWS) for t in touched), np.zeros(len(WINDOWS)))
    return np.asarray(np.interp(CACHE_BYTES, rows + other_bytes * WINDOWS, WINDOWS))


def kept_back(reached: FloatArray) -> FloatArray:
    """Iterations back of which rows count as kept, of caches with that `reach` ``[...]``."""
    return np.maximum(0.0, reached - SMOOTHED)


def lost_within(reached: FloatArray) -> FloatArray:
    """Share of the rows looked up that are gone when the same iteration updates them, of caches with that `reach`."""
    return 1.0 - np.clip(reached - SMOOTHED, 0.0, 1.0)
