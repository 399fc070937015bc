"""Typical times of iterations: medians, means without the slowest tenth, and the ratio to the yardstick."""

from __future__ import annotations

from math import ceil

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray

COUNTED_SHARE = 0.9
"""Fraction of the iterations, the fastest ones, that enter a mean: other processes delay the rest."""
MAX_STOLEN = 0.03
"""Fraction of the cores' time that a hypervisor may take from a job before the job counts as disturbed."""


def slowness(yardstick_s: float | None, reference_s: float | None) -> float:
    """Ratio of the yardstick's time during a measurement to its time during the calibration; 1 if either is unknown.

    The yardstick is a small training step (`trainer.process.yardstick`), so the ratio is the factor by which the
    machine trains more slowly than when it was calibrated.
    """
    return yardstick_s / reference_s if yardstick_s and reference_s else 1.0


def counted(seconds: FloatArray) -> IntArray:
    """Numbers of the fastest `COUNTED_SHARE` of iterations ``[iterations]``, ascending."""
    return np.sort(np.argsort(seconds, kind="stable")[: ceil(COUNTED_SHARE * len(seconds))])


def part_of_iteration(part_s: FloatArray, seconds: FloatArray) -> float:
    """Seconds that a part takes of the median iteration: its share of the counted iterations times their median.

    Args:
        part_s: time of the part in each iteration ``[iterations]``.
        seconds: time of each iteration ``[iterations]``.
    """
    kept = counted(seconds)
    return float(part_s[kept].sum() / seconds[kept].sum() * np.median(seconds))


def central_half(seconds: FloatArray) -> IntArray:
    """Numbers of the half of the iterations whose times are closest to the median ``[ceil(N / 2)]``, ascending."""
    distance = np.abs(seconds - np.median(seconds))
    return np.sort(np.argsort(distance, kind="stable")[: (len(seconds) + 1) // 2])


def spread_pct(values: FloatArray) -> float:
    """Half the interquartile range over the median, per cent; 0 if the median is 0."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return 100.0 * float(high - low) / 2 / float(middle) if middle else 0.0


def weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Smallest value at which half of the total weight is reached; both ``[N]``."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
