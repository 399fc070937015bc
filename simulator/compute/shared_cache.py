"""Division of a cache among the ranks that share it.

A cache that drops what was used longest ago (LRU) holds what came last, so each rank's part of it grows with every row
that the rank misses and shrinks with every row that others miss: while a cache fills up, it is divided as the ranks
miss it with the parts that they have by then (P. J. Denning, "Working Sets Past and Present", IEEE TSE 1980: how fast a
working set grows is how often a memory of its size is missed). A rank whose rows all fit into its part misses nothing
more, and leaves the rest to the others; ranks that miss alike have equal parts.
"""

from __future__ import annotations

import numpy as np

from simulator.operators import Amount, Misses

STEPS = 32
"""Number of steps in which a cache is filled."""


def parts(missed: Misses, passed: Amount, equal_bytes: float, sharing: int) -> Amount:
    """Each rank's part of a cache while all run the same kernel, bytes: a scalar where parts are equal, or ``[P]``.

    Args:
        missed: bytes that memory delivers to a rank, as a function of its part of the cache.
        passed: bytes that pass through the cache besides, whatever it holds.
        equal_bytes: an equal part.
        sharing: ranks that share one cache, of P those next to each other (placed in blocks); the last may be fewer.
    """
    if sharing == 1 or (missed.bytes.ndim == 1 and np.ndim(passed) == 0):
        return equal_bytes
    ranks = max(missed.bytes.shape[-1] if missed.bytes.ndim > 1 else 1, np.size(passed))
    cache_of = np.arange(ranks) // sharing
    held, equal = np.zeros(ranks), 1.0 / np.bincount(cache_of)[cache_of]
    for _ in range(STEPS):
        coming = np.broadcast_to(np.asarray(missed.at(held)) + passed, ranks)
        whole = np.bincount(cache_of, weights=coming)[cache_of]
        share = np.divide(coming, whole, out=equal.copy(), where=whole > 0.0)
        held = held + share / equal * equal_bytes / STEPS
    return held
