"""How fast a shared machine was while something was measured, against while it was calibrated."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

OWN_WORK = {"product": 0.4, "calls": 0.5}
"""Powers of the yardstick's pieces (`trainer.yardstick`) with which CPU time goes, and iterations of a rank alone."""
TOGETHER = {"product": 0.45, "calls": 0.25}
"""The same of iterations of several ranks, which wait for each other: that takes as long on a slow core. Both are the
means of two fits (``python -m benchmarks yardstick``, `docs/decisions/056`), rounded to 0.05; gathers and copies tell
nothing more."""


def slowness(now_s: Mapping[str, float], then_s: Mapping[str, float], ranks: int = 1) -> float:
    """By how much longer work takes now than then.

    Args:
        now_s: middle times of the yardstick's pieces now.
        then_s: the same then.
        ranks: 1: of the own work of a rank; more: of iterations of so many.

    Returns:
        1 where the pieces are not known.
    """
    powers = OWN_WORK if ranks == 1 else TOGETHER
    known = {name: power for name, power in powers.items() if name in now_s and name in then_s}
    return float(np.exp(sum(power * np.log(now_s[name] / then_s[name]) for name, power in known.items())))


def middle_s(times_s: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each piece's times."""
    return {name: float(np.median(of_piece)) for name, of_piece in times_s.items() if of_piece}
