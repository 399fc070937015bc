"""Amounts that members of instances send and receive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.operators import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Bytes each member sends and receives; each ``[1, 1]``, ``[I, 1]`` or ``[I, n]``."""

    out_bytes: FloatArray
    in_bytes: FloatArray

    def __add__(self, other: Traffic) -> Traffic:
        """Both together."""
        return Traffic(self.out_bytes + other.out_bytes, self.in_bytes + other.in_bytes)

    def __sub__(self, other: Traffic) -> Traffic:
        """The difference, with rounding errors set to zero."""
        return Traffic(left(self.out_bytes, other.out_bytes), left(self.in_bytes, other.in_bytes))


def both_ways(amount: FloatArray) -> Traffic:
    """Traffic of members that send as much as they receive."""
    return Traffic(amount, amount)


def left(whole: FloatArray, part: FloatArray) -> FloatArray:
    """``whole - part``; rounding leaves no trace of nothing."""
    rest = whole - part
    return np.where(rest > 1e-9 * whole, rest, 0.0)
