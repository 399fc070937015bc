"""Robust least squares of logarithms: few odd rows have little effect, and parameters without rows stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np

from simulator.operators import FloatArray

LINEAR_BEYOND = 0.1
"""Errors count by their square up to 10 %, linearly beyond."""
PRIOR_WEIGHT = 0.1
"""A drawn parameter that is off by e costs as much as one row that is 10 % off."""
EVALUATIONS = 60


@dataclass(frozen=True, slots=True)
class Fitted:
    """Logarithms of the parameters, and the remaining errors."""

    logs: FloatArray
    cost: float


def fitted_logs(
    errors: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    *,
    drawn: FloatArray | None = None,
    first: FloatArray | None = None,
    lowest: FloatArray | float = -np.inf,
    highest: FloatArray | float = np.inf,
    within: tuple[FloatArray, FloatArray] | None = None,
    on_evaluation: Callable[[int], None],
) -> Fitted:
    """Parameters whose errors are smallest.

    Args:
        errors: log(predicted / measured) of each row, of the logarithms of the parameters.
        start: logarithms ``[K]`` that parameters are drawn to, and where the search starts.
        drawn: whether each is drawn to its start ``[K]``; all by default.
        first: start of the search, if not ``start``.
        lowest: lower bound of the logarithms.
        highest: upper bound of the logarithms.
        within: smallest and largest values ``[K]`` of the parameters that a spec can hold: beyond them, errors are
            those of the nearest ones. The search is the same as without them where it stays within them.
        on_evaluation: called with the number of each evaluation.
    """
    from scipy.optimize import least_squares

    chosen, evaluations = np.ones(len(start), dtype=bool) if drawn is None else drawn, count(1)
    with np.errstate(divide="ignore"):  # the smallest time is 0
        least, most = np.log(within or (0.0, np.inf))

    def residuals(logs: FloatArray) -> FloatArray:
        on_evaluation(next(evaluations))
        return np.concatenate([errors(np.clip(logs, least, most)), PRIOR_WEIGHT * (logs - start)[chosen]])

    found = least_squares(
        residuals, start if first is None else first, loss="soft_l1", f_scale=LINEAR_BEYOND, max_nfev=EVALUATIONS,
        bounds=(lowest, highest),
    )  # fmt: skip
    return Fitted(np.clip(found.x, least, most), float(found.cost))
