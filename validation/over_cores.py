"""What ranks took on each of the cores that they were on by turns, all cores alike (`trainer.pin.core_turns`).

Where one core is slower for a while, ranks of unequal work wait more or less as it is this or that rank's. The mean
over the cores is independent of which rank was where for how long.
"""

from __future__ import annotations

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray


def median_over_cores(values: FloatArray, cores: IntArray) -> float:
    """The mean over cores of the median of each.

    Args:
        values: of iterations ``[iterations]``.
        cores: on which core each was ``[iterations]``.
    """
    return float(np.mean([np.median(values[cores == core]) for core in np.unique(cores)]))


def usual_over_cores(values: FloatArray, seconds: FloatArray, cores: IntArray) -> float:
    """The mean over cores of the mean of the usual iterations of each; ``seconds``: their times ``[iterations]``."""
    return float(np.mean([values[of_core].mean() for of_core in usual_of_cores(seconds, cores)]))


def evened(values: FloatArray, cores: IntArray) -> FloatArray:
    """Values of iterations ``[iterations]`` as if all cores had the same median."""
    found = np.array(values, dtype=np.float64)
    whole = median_over_cores(values, cores)
    for core in np.unique(cores):
        level = float(np.median(values[cores == core]))
        if level:
            found[cores == core] *= whole / level
    return found


def usual(seconds: FloatArray) -> IntArray:
    """Numbers of the half of some iterations whose times are nearest to the middle one ``[ceil(N / 2)]``, ascending.

    Something held up the others.
    """
    off = np.abs(seconds - np.median(seconds))
    return np.sort(np.argsort(off, kind="stable")[: (len(off) + 1) // 2])


def usual_of_cores(seconds: FloatArray, cores: IntArray) -> list[IntArray]:
    """Numbers of the usual iterations on each core; ``seconds``: their times, ``cores``: as above ``[iterations]``."""
    return [np.flatnonzero(cores == core)[usual(seconds[cores == core])] for core in np.unique(cores)]


def apart_s(seconds: FloatArray, collectives_s: FloatArray, cores: IntArray) -> float:
    """How far the work of a rank is from the mean of all in an iteration, the mean over ranks and usual iterations.

    Work is what is left of an iteration beside collectives.

    Args:
        seconds: of iterations ``[iterations, ranks]``.
        collectives_s: in which own threads issued collectives and waited for them, likewise.
        cores: on which core rank 0 was in each ``[iterations]``; all cores count alike.
    """
    work_s = seconds - collectives_s
    apart = np.abs(work_s - work_s.mean(axis=1, keepdims=True)).mean(axis=1)
    return usual_over_cores(apart, seconds.mean(axis=1), cores)
