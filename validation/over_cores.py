"""What ranks took on each of the cores that they were on by turns, all cores alike (`trainer.pin.core_turns`).

Where one core is slower for a while, ranks of unequal work wait more or less as it is this or that rank's. The mean
over the cores is independent of which rank was where for how long.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray

UNHINDERED = 0.9
"""Of iterations, the part that counts where the mean of something is told."""


def median_over_cores(values: FloatArray, cores: IntArray) -> float:
    """The mean over cores of the median of each.

    Args:
        values: of iterations ``[iterations]``.
        cores: on which core each was ``[iterations]``.
    """
    return float(np.mean([np.median(values[cores == core]) for core in np.unique(cores)]))


def part_over_cores(values: FloatArray, seconds: FloatArray, cores: IntArray) -> float:
    """What a part takes of the median iteration: its share of the `unhindered` ones, the mean over cores.

    Args:
        values: what the part takes of iterations ``[iterations]``.
        seconds: what they take in all, likewise.
        cores: on which core each was, likewise.
    """
    counted = unhindered(seconds, cores)
    parts = [
        values[of].sum() / seconds[of].sum() * np.median(seconds[cores == core])
        for core, of in _by_core(counted, cores).items()
    ]
    return float(np.mean(parts))


def _by_core(numbers: IntArray, cores: IntArray) -> dict[int, IntArray]:
    """Numbers of iterations by the core that each was on."""
    return {int(core): numbers[cores[numbers] == core] for core in np.unique(cores[numbers])}


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


def unhindered(seconds: FloatArray, cores: IntArray) -> IntArray:
    """Numbers of the iterations but the slowest tenth, as if all cores had the same median, ascending.

    What collectives stall is part of most of them, to another extent in each: the half around the middle one has all of
    that or nothing (`docs/decisions/124`). What holds up the others is not the job's.

    Args:
        seconds: times of iterations ``[iterations]``.
        cores: on which core each was ``[iterations]``.
    """
    kept = ceil(UNHINDERED * len(seconds))
    return np.sort(np.argsort(evened(seconds, cores), kind="stable")[:kept])


def apart_s(seconds: FloatArray, collectives_s: FloatArray, cores: IntArray) -> float:
    """How far the work of a rank is from the mean of all in an iteration, the mean over ranks and those not hindered.

    Work is what is left of an iteration beside collectives.

    Args:
        seconds: of iterations ``[iterations, ranks]``.
        collectives_s: in which own threads issued collectives and waited for them, likewise.
        cores: on which core rank 0 was in each ``[iterations]``; all cores count alike.
    """
    work_s = seconds - collectives_s
    apart = np.abs(work_s - work_s.mean(axis=1, keepdims=True)).mean(axis=1)
    counted = unhindered(seconds.mean(axis=1), cores)
    return float(np.mean([apart[of].mean() for of in _by_core(counted, cores).values()]))
