"""The interval of a prediction: uncertain constants, through the elasticities of the bound, to p10 and p90.

    sigma^2 = sum over constants k of (sum over classes c of e_c w_ck)^2 sigma_k^2

with the elasticity e_c of the time to class c, from the re-run in which c is 10 % better, and the part w_ck of the
class's time that constant k stands for. Constants are independent. p10 and p90 are T exp(q sigma), with quantiles q of
cases that nothing was fitted on (`scenarios.uncertainty.conformal`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenarios.uncertainty.conformal import Quantiles
from scenarios.uncertainty.constant import Constant
from scenarios.uncertainty.machine import Weighted
from simulator.analysis.bound import IMPROVEMENT, NEGLIGIBLE_GAIN, Gain

WHOLE = "whole"
"""Name of the class of constants that all of the time depends on."""

COLLECTIVES = ("NVLink", "NIC", "spine", "site", "messages")
"""Classes whose time is that of collectives."""


@dataclass(frozen=True, slots=True)
class Source:
    """A constant that widens the interval.

    Attributes:
        constant: the constant, with its own uncertainty.
        resource_class: class of the bound that it stands behind.
        elasticity: relative change of the time for one of the constant.
        share: its part of the variance, 0 to 1.
    """

    constant: Constant
    resource_class: str
    elasticity: float
    share: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``summary.json`` has them."""
        of = self.constant
        return {
            "key": of.key,
            "class": self.resource_class,
            "grade": of.grade,
            "sigma": of.sigma,
            "elasticity": self.elasticity,
            "share": self.share,
            "reason": of.reason,
            "measure": of.measure,
        }


@dataclass(frozen=True, slots=True)
class Interval:
    """8 in 10 times are within p10 and p90.

    Attributes:
        time_s: the prediction, seconds.
        p10_s: a tenth of the times is below, seconds.
        p90_s: a tenth of the times is above, seconds.
        sigma: standard deviation of the time's logarithm before the quantiles.
        group: group of cases that the quantiles are of.
        sources: constants by their part of the variance, largest first.
        given: keys whose uncertainty is not known, as the user wrote their values.
    """

    time_s: float
    p10_s: float
    p90_s: float
    sigma: float
    group: str
    sources: tuple[Source, ...]
    given: tuple[str, ...]

    @property
    def widest(self) -> tuple[Source, ...]:
        """The two constants that widen it most, of those that a command or a benchmark measures."""
        return tuple(source for source in self.sources if source.constant.measure)[:2]

    def to_dict(self) -> dict[str, Any]:
        """Sources of the interval, as ``summary.json`` has it."""
        return {
            "group": self.group,
            "sigma": self.sigma,
            "widest": [source.constant.key for source in self.widest],
            "sources": [source.to_dict() for source in self.sources],
            "given": list(self.given),
        }


def elasticity(base_s: float, improved_s: float) -> float:
    """Relative change of the time for one of a class: log(T / T_c) / log(1.1)."""
    return math.log(base_s / improved_s) / math.log(IMPROVEMENT) if base_s > 0.0 and improved_s > 0.0 else 0.0


def elasticities(base_s: float, gains: Iterable[Gain]) -> dict[str, float]:
    """Elasticity to each class; gains below 0.1 % count as none."""
    return {
        gain.resource_class: elasticity(base_s, gain.iteration_time_s) if abs(gain.gain) >= NEGLIGIBLE_GAIN else 0.0
        for gain in gains
    }


def sources_of(
    to_class: Mapping[str, float], constants: Mapping[str, Sequence[Weighted]], common: Iterable[tuple[float, Constant]]
) -> tuple[Source, ...]:
    """All constants with an effect, by their part of the variance.

    Args:
        to_class: elasticity to each class.
        constants: constants behind each class.
        common: further constants with their elasticities.
    """
    found: dict[str, tuple[Constant, str, float]] = {}
    behind = (
        (name, to_class.get(name, 0.0) * part, constant)
        for name, of_class in constants.items()
        for part, constant in of_class
    )
    for name, slope, constant in (*behind, *((WHOLE, slope, constant) for slope, constant in common)):
        known, of, sum_ = found.get(constant.key, (constant, name, 0.0))
        found[constant.key] = (max(known, constant, key=lambda c: c.sigma), of, sum_ + slope)
    effects = [item for item in found.values() if abs(item[2]) > 0.0]
    variance = sum((slope * constant.sigma) ** 2 for constant, _, slope in effects)
    made = [
        Source(constant, name, slope, (slope * constant.sigma) ** 2 / variance if variance > 0.0 else 0.0)
        for constant, name, slope in effects
    ]
    return tuple(sorted(made, key=lambda source: -source.share))


def interval(time_s: float, sources: Sequence[Source], group: str, bounds: Quantiles, least: float = 0.0) -> Interval:
    """The interval of a time.

    Args:
        bounds: quantiles of the group.
        least: smallest distance of p10 and p90 from the time, as a logarithm.
    """
    sigma = math.sqrt(sum((source.elasticity * source.constant.sigma) ** 2 for source in sources))
    low, high = min(bounds.low * sigma, -least), max(bounds.high * sigma, least)
    given = tuple(dict.fromkeys(source.constant.key for source in sources if source.constant.grade == "given"))
    uncertain = tuple(source for source in sources if source.share > 0.0)
    return Interval(time_s, time_s * math.exp(low), time_s * math.exp(high), sigma, group, uncertain, given)
