"""Arrivals of requests."""

from __future__ import annotations

import numpy as np

from simulator.operators import FloatArray

_MORE = 1.01
"""Number of gaps drawn at a time, over the expected number of missing gaps."""


def poisson_arrivals(rate_per_s: float, horizon_s: float, draw: np.random.Generator) -> FloatArray:
    """Times of Poisson arrivals from 0 to ``horizon_s``, ascending ``[R]``, seconds."""
    found, last_s = [np.zeros(0)], 0.0
    while last_s < horizon_s:
        count = int(_MORE * (horizon_s - last_s) * rate_per_s) + 16
        times = last_s + np.cumsum(draw.exponential(1.0 / rate_per_s, count))
        found.append(times)
        last_s = float(times[-1])
    times = np.concatenate(found)
    return np.asarray(times[: np.searchsorted(times, horizon_s)])
