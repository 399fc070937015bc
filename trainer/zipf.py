"""Indices whose popularity falls with a power of their rank.

The law: ``x`` has density proportional to ``x**-s`` on [1, R + 1), the row's popularity rank is ``floor(x)``. It is
Zipf's law with its sum replaced by the integral, hence exact to draw by inversion, whatever R.

The exponent is not chosen: it is the one at which a batch touches as many distinct rows as the model's measured index
reuse says (`workloads.reuse`), which is also what the simulator counts with.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from trainer.draws import FloatArray
from workloads.reuse import Reuse, distinct_rows

_HEAD = 1024
"""Rows that are summed one by one when distinct rows are counted; the others in geometric bins."""
_BINS = 400
"""Geometric bins behind the head: neighbours differ by at most 6 % in popularity rank up to 2^40 rows."""
_STEEPEST = 8.0
_HALVINGS = 50
"""Halvings of the bracket of the exponent: 8 / 2^50."""


def popularity_ranks(u: FloatArray, rows: int, exponent: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Popularity rank, from 0 on, of each draw ``[n]``: the distribution's inverse at ``u`` in [0, 1)."""
    power = 1.0 - exponent
    if abs(power) < 1e-9:
        x = np.exp(u * math.log(rows + 1.0))
    else:
        x = np.exp(np.log1p(u * math.expm1(power * math.log(rows + 1.0))) / power)
    return np.clip(x.astype(np.int64) - 1, 0, rows - 1)


def scattered(
    ranks: np.ndarray[tuple[int], np.dtype[np.int64]], rows: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Rows of popularity ranks ``[n]``: a one-to-one map that spreads popular rows over the table, as hashing does."""
    return (ranks * _stride(rows)) % rows


def exponent_for(rows: int, lookups: float, samples: float, reuse: Reuse | None) -> float:
    """Exponent at which ``lookups`` lookups of a batch of ``samples`` touch as many rows as ``reuse`` says."""
    if reuse is None or rows == 1:
        return 0.0
    size, count = np.array([float(rows)]), np.array([lookups])
    wanted = float(distinct_rows(size, count, samples, reuse)[0])
    if wanted >= float(distinct_rows(size, count, samples, None)[0]) * (1 - 1e-9):
        return 0.0
    low, high = 0.0, _STEEPEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_distinct(rows, lookups, middle) > wanted else (low, middle)
    return (low + high) / 2


def expected_distinct(rows: int, lookups: float, exponent: float) -> float:
    """Distinct rows that ``lookups`` draws touch in the mean: the sum over rows of ``1 - (1 - p)^n``."""
    edges, count = _bins(rows)
    power = 1.0 - exponent
    reach = np.log(edges) if abs(power) < 1e-9 else np.expm1(power * np.log(edges)) / power
    p = np.minimum(np.diff(reach) / reach[-1] / count, 1.0 - 1e-15)
    return float(count @ -np.expm1(lookups * np.log1p(-p)))


@lru_cache(maxsize=4096)
def _bins(rows: int) -> tuple[FloatArray, FloatArray]:
    """Edges of bins of popularity ranks, from 1 to rows + 1, and how many ranks each holds."""
    head = np.arange(1.0, min(rows, _HEAD) + 2.0)
    tail = np.geomspace(head[-1], rows + 1.0, _BINS + 1)[1:] if rows > _HEAD else np.zeros(0)
    edges = np.concatenate([head, tail])
    return edges, np.diff(edges)


@lru_cache(maxsize=4096)
def _stride(rows: int) -> int:
    """A number near rows / golden ratio that shares no factor with rows: multiples of it are spread evenly."""
    stride = max(1, int(rows * 0.6180339887498949))
    while math.gcd(stride, rows) != 1:
        stride += 1
    return stride
