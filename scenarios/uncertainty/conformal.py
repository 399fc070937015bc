"""Split conformal prediction, normalised by the standard deviation of each case, by group of cases.

With residuals z = log(measured / predicted) / sigma of n configurations that nothing was fitted on, the k-th smallest
with k = ceil(0.9 (n + 1)) is above the residual of a new one with probability 0.9 at least, if it is exchangeable with
them (Papadopoulos 2002, Lei 2018; by group: Mondrian, Vovk 2003). So is the k-th largest below it. Cases of one
configuration (a collective at several sizes) share the weight of one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TAIL = 0.1
"""Part of the cases that an interval leaves out on each side: 8 in 10 are inside."""

FEWEST = math.ceil(2.0 / TAIL) - 1
"""Configurations from which a group has quantiles of its own: with fewer than 19, its most extreme case is one
alone."""


@dataclass(frozen=True, slots=True)
class Residual:
    """A case.

    Attributes:
        z: log(measured / predicted) / sigma.
        configuration: name that cases share which are no independent trials.
    """

    z: float
    configuration: str


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Bounds of z: low is at most 0, high at least 0, so that a prediction lies in its own interval.

    Attributes:
        configurations: number of configurations that they were taken from.
    """

    low: float
    high: float
    configurations: int


def by_group(residuals: Mapping[str, Sequence[Residual]]) -> dict[str, Quantiles]:
    """Quantiles of each group; a group with too few configurations takes those of all groups together."""
    common = quantiles([case for group in residuals.values() for case in group])
    found = {}
    for name, group in residuals.items():
        count = len({case.configuration for case in group})
        found[name] = quantiles(group) if count >= FEWEST else Quantiles(common.low, common.high, count)
    return found


def quantiles(cases: Sequence[Residual]) -> Quantiles:
    """The quantiles of cases; the extremes where there are too few."""
    sizes = Counter(case.configuration for case in cases)
    weighted = sorted((case.z, 1.0 / sizes[case.configuration]) for case in cases)
    low = -_upper([(-z, weight) for z, weight in reversed(weighted)], len(sizes))
    return Quantiles(min(low, 0.0), max(_upper(weighted, len(sizes)), 0.0), len(sizes))


def _upper(ascending: Sequence[tuple[float, float]], count: int) -> float:
    """The smallest residual that 9 in 10 of `count` configurations and a new one are up to; the last without such."""
    needed, seen = (1.0 - TAIL) * (count + 1), 0.0
    for z, weight in ascending:
        seen += weight
        if seen >= needed - 1e-9:
            return z
    return ascending[-1][0] if ascending else 0.0
