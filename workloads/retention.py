"""What a cache still holds of embedding rows when they are touched again.

An iteration looks up the tables one after the other, then updates them, and passes over activations and gradients. What
it touches in all decides how many iterations back a cache reaches that keeps what was touched last: as far as all of
them together touch no more than it holds. A row is in it if

- the lookups of its table in the same pass have touched it before, and not too many others since; or
- one of the iterations that the cache reaches has.

The caches of processors keep nearly what was touched last, not exactly: reach is smoothed by half an iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.operators import FloatArray
from workloads.popularity import Popularity

CACHE_BYTES = np.array([0.0, *(2.0**20 * 2.0 ** np.arange(9))])
"""Sizes of caches for which misses are counted ``[G]``: none, 1 MiB to 256 MiB."""
WINDOWS = np.append(0.0, np.geomspace(2.0**-4, 2.0**12, 49))
"""Iterations of which it is known what they touch ``[W]``."""
SMOOTHED = 0.5
"""Of an iteration: a cache that reaches back so much less than one may have lost what that touched."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Rows of a shard that an iteration touches.

    Attributes:
        popularity: of the rows of its whole table.
        part: of that table's rows, and of their lookups, in the shard; above 0.
        lookups: of an iteration in the shard.
        row_bytes: of a row.
        state_bytes: of what the optimizer keeps of a row.
    """

    popularity: Popularity
    part: float
    lookups: float
    row_bytes: float
    state_bytes: float = 0.0

    def distinct(self, iterations: FloatArray | float) -> FloatArray:
        """Rows that so many iterations ``[...]`` touch ``[...]``."""
        return np.asarray(self.part * self.popularity.distinct(self.lookups / self.part * np.asarray(iterations)))

    def new(self, back: FloatArray) -> FloatArray:
        """Rows that an iteration touches and none of the ``back [...]`` iterations before it has ``[...]``."""
        return self.distinct(back + 1.0) - self.distinct(back)

    def missed_bytes(self, back: FloatArray) -> FloatArray:
        """Bytes of rows looked up that caches of `CACHE_BYTES` do not serve, which reach ``back [G]`` iterations."""
        held, share = self.popularity.missed(self.lookups / self.part)
        alone = self.lookups * np.interp(CACHE_BYTES / (self.row_bytes * self.part), held, share)
        missed = np.maximum(alone - float(self.distinct(1.0)), 0.0) + self.new(back)
        return np.asarray(self.row_bytes * np.minimum(missed, self.lookups))


def reach(touched: Sequence[Touched], other_bytes: float) -> FloatArray:
    """Iterations whose rows and other data caches of `CACHE_BYTES` hold ``[G]``.

    Args:
        touched: shards of a rank.
        other_bytes: what else an iteration touches.
    """
    rows = sum(((t.row_bytes + t.state_bytes) * t.distinct(WINDOWS) for t in touched), np.zeros(len(WINDOWS)))
    return np.asarray(np.interp(CACHE_BYTES, rows + other_bytes * WINDOWS, WINDOWS))


def kept_back(reached: FloatArray) -> FloatArray:
    """Iterations back of which rows count as kept, of caches with that `reach` ``[...]``."""
    return np.maximum(0.0, reached - SMOOTHED)


def lost_within(reached: FloatArray) -> FloatArray:
    """Share of the rows looked up that are gone when the same iteration updates them, of caches with that `reach`."""
    return 1.0 - np.clip(reached - SMOOTHED, 0.0, 1.0)
