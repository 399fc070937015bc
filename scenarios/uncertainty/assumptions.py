"""Warnings on what bounds an iteration, where it rests on constants that nobody measured."""

from __future__ import annotations

from inputs.given import listed
from scenarios.uncertainty.interval import Interval, Source
from simulator.analysis import Bound

LEAST_SHARE = 0.1
"""Share of the iteration time that a warning is worth: a tenth may exchange the bound and its runner-up."""

NAMED = 3
"""Constants that a warning names."""


def assumption_warnings(bound: Bound, interval: Interval) -> list[str]:
    """One warning for each class that the bound is spread over and that rests on assumed constants."""
    names = [gain.resource_class for gain in bound.spread or (bound.winner,) if gain is not None]
    return [warning for name in names if (warning := _of_class(name, interval))]


def _of_class(name: str, interval: Interval) -> str:
    """The warning of one class, empty without assumed constants that matter."""
    assumed = [source for source in interval.sources if _is_assumed(source, name)]
    share = max((source.elasticity for source in assumed), default=0.0)
    if share < LEAST_SHARE:
        return ""
    keys = listed([source.constant.key for source in assumed], NAMED)
    return f"{name} bounds {100 * share:.0f} % of the iteration and rests on assumed constants: {keys}"


def _is_assumed(source: Source, name: str) -> bool:
    return source.resource_class == name and source.constant.grade == "assumed" and source.elasticity > 0.0
