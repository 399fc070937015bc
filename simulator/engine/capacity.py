"""Capacity that background traffic leaves of the resources, as a function of time.

A resource of which the share b is taken has 1 - b left. Its users then fill it as if they used u / (1 - b) of it: that
is all bottleneck fairness has to know, since only shares of the same resource are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.lowered import Background
from simulator.operators import FloatArray
from simulator.program import IntArray

NEVER = np.iinfo(np.int64).max


class Capacities:
    """Remaining capacity of each resource (or class of resources) at a time.

    Within a state, which has a bit for each background that is on, capacities are constant.
    """

    def __init__(self, backgrounds: Sequence[Background], numbers: IntArray, count: int) -> None:
        """Capacities of ``count`` resources; ``numbers[l]`` is the number of the program's resource l here."""
        self._backgrounds, self._numbers, self._count = backgrounds, numbers, count
        self._left: dict[int, FloatArray] = {}

    def state(self, now: int) -> int:
        """Backgrounds that are on at ``now`` ps."""
        return sum(1 << number for number, traffic in enumerate(self._backgrounds) if traffic.is_on(now))

    def left(self, state: int) -> FloatArray:
        """Remaining fraction of each resource ``[count]``, in (0, 1]."""
        if state not in self._left:
            left = np.ones(self._count)
            for number, traffic in enumerate(self._backgrounds):
                if state >> number & 1:
                    left[self._numbers[traffic.resources]] = 1.0 - traffic.share
            self._left[state] = left
        return self._left[state]

    def next_change(self, now: int) -> int:
        """The next time in ps, after ``now``, at which a background starts or stops; `NEVER` without bursts."""
        return min((traffic.next_change(now) for traffic in self._backgrounds if traffic.off_ps), default=NEVER)
