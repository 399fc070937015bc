"""A constant behind a prediction, and how far it may be off."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from inputs.sourced import Grade, Sourced

SIGMA: Mapping[Grade, float] = {
    "read": 0.02,
    "derived": 0.05,
    "secondary": 0.08,
    "memory": 0.10,
    "assumed": 0.25,
    "given": 0.0,
}
"""Standard deviation of the logarithm of a constant by its grade. Judged, not measured: alternatives of one value in
the shipped specs differ by about as much; only the ratios matter, since the quantiles of `quantiles.yaml` scale all.
``given``: not known, counted as 0, and listed apart."""

_IN_WORDS: Mapping[Grade, str] = {
    "read": "read in its source",
    "derived": "computed from other values",
    "secondary": "quoted by a third party",
    "memory": "recalled, its source was not seen",
    "assumed": "assumed",
    "given": "given by the user: how sure it is, is not known",
}


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant.

    Attributes:
        key: dotted key in the resolved scenario.
        grade: evidence for it.
        sigma: standard deviation of its logarithm.
        reason: why it is that uncertain, in words.
        measure: a command or a benchmark that measures it; empty: none does.
    """

    key: str
    grade: Grade
    sigma: float
    reason: str
    measure: str = ""

    def widened(self, sigma: float, reason: str) -> Constant:
        """The constant with a further, independent uncertainty."""
        return replace(self, sigma=math.hypot(self.sigma, sigma), reason=f"{self.reason}; {reason}")


def graded(key: str, value: Sourced[Any], measure: str) -> Constant:
    """A constant whose uncertainty is that of its grade."""
    words = _IN_WORDS[value.grade]
    note = value.note or value.source
    return Constant(
        key, value.grade, SIGMA[value.grade], f"{words}: {note}" if value.grade == "assumed" else words, measure
    )
