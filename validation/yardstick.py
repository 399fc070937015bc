"""How fast a shared machine was while something was measured, against while it was calibrated."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

PIECES = ("product", "gather", "copy", "calls")
"""Pieces of the yardstick (`trainer.yardstick`) that tell how fast a rank is."""
POWER = 0.7
"""Of their geometric mean with which times go: the mean of three fits (``python -m benchmarks yardstick``,
`docs/decisions/056`), rounded to 0.1."""


def slowness(now_s: Mapping[str, float], then_s: Mapping[str, float]) -> float:
    """By how much longer work takes now than then; 1 where the pieces are not known.

    Args:
        now_s: middle times of the yardstick's pieces now.
        then_s: the same then.
    """
    known = [name for name in PIECES if name in now_s and name in then_s]
    return float(np.exp(POWER * np.mean([np.log(now_s[name] / then_s[name]) for name in known]))) if known else 1.0


def middle_s(times_s: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each piece's times."""
    return {name: float(np.median(of_piece)) for name, of_piece in times_s.items() if of_piece}
