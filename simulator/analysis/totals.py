"""Sums of times over ranks: a million ranks for ten seconds have more picoseconds than 64 bits count."""

from __future__ import annotations

import numpy as np

from simulator.program import IntArray

_LOW_BITS = 32


def total_ps(times_ps: IntArray) -> int:
    """Sum of times in ps, exactly."""
    high, low = times_ps >> _LOW_BITS, times_ps & ((1 << _LOW_BITS) - 1)
    return (int(np.sum(high)) << _LOW_BITS) + int(np.sum(low))
