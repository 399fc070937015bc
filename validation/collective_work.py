"""What collectives within iterations take of the cores of ranks, and what calls that issue them lose to that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from validation.fits.nonnegative import nonnegative

FLOOR_S = 2e-4
"""Errors are relative to what is predicted plus this, seconds."""


@dataclass(frozen=True, slots=True)
class CollectiveWork:
    """What a job's collectives ask of a rank's cores.

    Attributes:
        moving_s: seconds of an iteration in which their data move, when nothing is beside them.
        cores_s: what their threads had of a core.
        calls: collectives that a rank issues.
        called_s: time in calls that issue them; 0 where it was not told.
        calling_s: what the rank's own thread had of a core in these and in waits.
        contended: of ranks that take turns the part of the iteration in which others work on a rank's core; 1 of ranks
            with cores of their own.
    """

    moving_s: float
    cores_s: float
    calls: int = 0
    called_s: float = 0.0
    calling_s: float = 0.0
    contended: float = 1.0


def thread_costs(jobs: Sequence[CollectiveWork]) -> tuple[float, float]:
    """What collectives' threads work: for each collective, and for each second in which data would move alone.

    Args:
        jobs: at least one.

    Returns:
        Seconds of a core for each, and seconds for each second.
    """
    cores_s, matrix = np.array([job.cores_s for job in jobs]), np.array([[job.calls, job.moving_s] for job in jobs])
    each, moving = nonnegative(matrix, cores_s, np.full(len(jobs), FLOOR_S), np.ones(len(jobs))).tolist()
    return each, moving


def calls_lost(jobs: Sequence[CollectiveWork]) -> tuple[float, float]:
    """What calls that issue collectives lose of their core: each, and for each second in which data would move alone.

    It is what they take longer than their threads work (`docs/decisions/109`); of ranks that take turns, while others
    have work (`docs/decisions/112`). 0 where no job tells it.

    Args:
        jobs: of ranks with cores of their own, or of ranks that take turns.

    Returns:
        Seconds for each call, and seconds for each second.
    """
    told = [job for job in jobs if job.called_s > 0.0]
    if not told:
        return 0.0, 0.0
    called_s = np.array([job.called_s for job in told])
    lost_s = np.maximum(called_s - [job.calling_s for job in told], 0.0)
    matrix = np.array([[job.contended * job.calls, job.contended * job.moving_s] for job in told], dtype=np.float64)
    each, moving = nonnegative(matrix, lost_s, called_s, np.ones(len(told))).tolist()
    return each, moving
