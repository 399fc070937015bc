"""How much the cores of a machine differ by chance, from what ranks worked in each iteration of the same job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hardware_specs.cpu_kernels import MOST_FALL
from simulator.operators import FloatArray
from validation.host_record import JobRecord

FEWEST_JOBS = 10
"""That tell how a spread goes with work."""
FEWEST_ITERATIONS = 4
"""Of a job that tell its spread."""


class PaceSpread(NamedTuple):
    """Of a job: what a core worked in an iteration on the average, seconds, and the spread of its pace over that."""

    work_s: float
    spread: float


def spread_falls(jobs: Sequence[JobRecord], cores: int) -> float:
    """The power of a core's work in an iteration with which the spread of its pace falls, 0 to `MOST_FALL`.

    0 where too few jobs tell.

    Args:
        jobs: trained by one rank or more on each core.
        cores: that ranks were pinned to in turn.
    """
    found = [spread for job in jobs if (spread := pace_spread(job, cores)) is not None]
    if len(found) < FEWEST_JOBS:
        return 0.0
    work_s, spreads = np.log(found).T
    return float(np.clip(-np.polyfit(work_s, spreads, 1)[0], 0.0, MOST_FALL))


def pace_spread(job: JobRecord, cores: int) -> PaceSpread | None:
    """The spread of a job's cores; None where it was not recorded, or of one core.

    Of the logarithm of what cores worked in each iteration, what is neither a core's share in all iterations (its rank
    may have more tables) nor an iteration's on all cores (it may have more lookups).
    """
    each_s = np.array([rank.each_cpu_s for rank in job.trained])
    if job.ranks < cores or cores < 2 or each_s.shape[1] < FEWEST_ITERATIONS:
        return None
    core_s = np.stack([each_s[core::cores].sum(axis=0) for core in range(cores)])
    left = _without_means(np.log(core_s))
    freedom = (left.shape[0] - 1) * (left.shape[1] - 1)
    return PaceSpread(float(core_s.mean()), float(np.sqrt(np.sum(left**2) / freedom)))


def _without_means(values: FloatArray) -> FloatArray:
    """Values ``[cores, iterations]`` without the means of both."""
    left = values - values.mean(axis=0)
    return np.asarray(left - left.mean(axis=1, keepdims=True), dtype=np.float64)
