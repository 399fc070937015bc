"""How fast a shared machine was while something was measured, against while it was calibrated."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

TELLING = ("product", "calls")
"""Pieces of the yardstick (`trainer.yardstick`) that tell of an iteration. Of 40 jobs trained twice, the rank's own CPU
time differed by 9 % in the middle, by 6 % once divided by the root of the product of these two; gathers and copies told
nothing more (`docs/decisions/055`)."""


def slowness(now_s: Mapping[str, float], then_s: Mapping[str, float]) -> float:
    """By how much longer work takes now than then, given the middle times of the pieces; 1 where they are not known."""
    known = [name for name in TELLING if name in now_s and name in then_s]
    return float(np.exp(np.mean([np.log(now_s[name] / then_s[name]) for name in known]))) if known else 1.0


def middle_s(times_s: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each piece's times."""
    return {name: float(np.median(of_piece)) for name, of_piece in times_s.items() if of_piece}
