"""What ranks took on each of the cores that they were on by turns, all cores alike (`trainer.pin.turns`).

A rank that was on a slow core for a while took longer then, and others waited for it; of a quantity that is the middle
of iterations, the mean over cores is what equal cores of the same speed would have given.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray

Middle = Callable[[FloatArray], float]


def over_cores(values: FloatArray, cores: IntArray, middle: Middle) -> float:
    """The mean over cores of the middle of the values of each.

    Args:
        values: of iterations ``[iterations]``.
        cores: on which core each was ``[iterations]``.
        middle: of the values of one core.
    """
    return float(np.mean([middle(values[cores == core]) for core in np.unique(cores)]))


def evened(values: FloatArray, cores: IntArray, middle: Middle) -> FloatArray:
    """Values of iterations ``[iterations]`` as if all cores had the same middle; arguments as of `over_cores`."""
    found = np.array(values, dtype=np.float64)
    whole = over_cores(values, cores, middle)
    for core in np.unique(cores):
        level = middle(values[cores == core])
        if level:
            found[cores == core] *= whole / level
    return found


def median(values: FloatArray) -> float:
    """The middle one of values ``[N]``."""
    return float(np.median(values))


def usual(seconds: FloatArray) -> IntArray:
    """Numbers of the half of some iterations whose times are nearest to the middle one ``[ceil(N / 2)]``, ascending.

    Something held up the others.
    """
    off = np.abs(seconds - np.median(seconds))
    return np.sort(np.argsort(off, kind="stable")[: (len(off) + 1) // 2])


def usual_of_cores(seconds: FloatArray, cores: IntArray) -> list[IntArray]:
    """Numbers of the usual iterations on each core; arguments as of `over_cores`."""
    return [np.flatnonzero(cores == core)[usual(seconds[cores == core])] for core in np.unique(cores)]
