"""Statistics of simulated queues with standard errors, from batches of one long run.

A run is cut into batches of equal length in time; the first batches are left out, because the empty start biases them.
Means of long batches are nearly independent, so their spread gives the standard error (batch means).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simulator.queueing.arriving_jobs import ArrivingJobs

BATCHES = 20
"""Number of batches of a run; 20 to 30 is usual for batch means (Law, Simulation Modeling and Analysis)."""
WARM_UP = 2
"""Number of batches at the start that are left out."""
TAIL = 95
"""Reported percentile of completion times."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A simulated statistic and its standard error; NaN without values."""

    value: float
    standard_error: float

    def to_dict(self) -> dict[str, float | None]:
        """Plain JSON values; None for NaN."""
        return {key: value if math.isfinite(value) else None for key, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """Statistics of jobs on a set of devices.

    Attributes:
        blocked: `[B]` number of jobs of each batch that never start.
        arrived: `[B]` number of jobs of each batch.
        blocking: fraction of jobs that never start.
        completion_s: mean time from arrival to end of jobs that start, seconds.
        completion_tail_s: percentile `TAIL` of these times, seconds.
        utilisation: fraction of the devices' time in which jobs hold the devices.
        finished_per_s: jobs that start, per second; each started job finishes.
    """

    blocked: NDArray[np.int64]
    arrived: NDArray[np.int64]
    blocking: Sampled
    completion_s: Sampled
    completion_tail_s: Sampled
    utilisation: Sampled
    finished_per_s: Sampled


def statistics_of(jobs: ArrivingJobs, starts: NDArray[np.float64], devices: int) -> QueueStatistics:
    """Statistics of a run.

    Args:
        starts: `[J]` starts from `simulator.queueing.arriving_jobs.served`, seconds.
    """
    edges = np.linspace(0.0, float(jobs.arrival_s[-1]), BATCHES + 1)
    batch = np.clip(np.searchsorted(edges, jobs.arrival_s, side="right") - 1, 0, BATCHES - 1)
    ran = ~np.isnan(starts)
    counts = np.bincount(batch, minlength=BATCHES), np.bincount(batch[ran], minlength=BATCHES)
    arrived, started = (each[WARM_UP:] for each in counts)
    took, of = (starts + jobs.run_s - jobs.arrival_s)[ran], batch[ran]
    length_s = edges[1]
    return QueueStatistics(
        arrived - started,
        arrived,
        ratio_of(arrived - started, arrived),
        _by_batch(took, of, np.mean),
        _by_batch(took, of, lambda times: np.percentile(times, TAIL)),
        _mean_of(_held_s(jobs, starts, edges)[WARM_UP:] / (devices * length_s)),
        _mean_of(started / length_s),
    )


def ratio_of(part: NDArray[np.int64], whole: NDArray[np.int64]) -> Sampled:
    """Ratio of two sums over batches; its standard error is the jackknife's over batches.

    Numerator and denominator may be correlated, such as results of two choices for the same jobs.
    """
    if not whole.sum():
        return Sampled(math.nan, math.nan)
    kept = np.maximum(whole.sum() - whole, 1)
    left_out = (part.sum() - part) / kept
    count = len(left_out)
    spread = float(((left_out - left_out.mean()) ** 2).sum())
    return Sampled(float(part.sum() / whole.sum()), math.sqrt((count - 1) / count * spread))


def _mean_of(values: NDArray[np.float64]) -> Sampled:
    return Sampled(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values)))


def _by_batch(
    times: NDArray[np.float64], batch: NDArray[np.int64], statistic: Callable[[NDArray[np.float64]], np.floating]
) -> Sampled:
    """A statistic of all times, and its standard error from its values in batches."""
    kept = batch >= WARM_UP
    if not kept.any():
        return Sampled(math.nan, math.nan)
    found = [float(statistic(times[batch == number])) for number in np.unique(batch[kept])]
    error = float(np.std(found, ddof=1)) / math.sqrt(len(found)) if len(found) > 1 else math.nan
    return Sampled(float(statistic(times[kept])), error)


def _held_s(jobs: ArrivingJobs, starts: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """`[B]` device-seconds of jobs in each batch."""
    ran = ~np.isnan(starts)
    begin, end, held = starts[ran], (starts + jobs.run_s)[ran], jobs.devices[ran]
    return np.array(
        [
            float((held * np.maximum(np.minimum(end, high) - np.maximum(begin, low), 0.0)).sum())
            for low, high in pairwise(edges.tolist())
        ]
    )
