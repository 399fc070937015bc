"""Non-negative least squares of relative errors, drawn to known costs where rows determine little."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray

LINEAR_BEYOND = 0.15
"""Relative errors up to this count by their square, larger ones by their size."""
USUAL_OFF, UNUSUAL_SHARE = 0.5, 0.1
"""Standard deviations: of costs from those of another CPU times a number for each kind of kernel; and of what an amount
that cost nothing there makes of the row with most of it (`docs/decisions/055`)."""
ROUNDS = 40
"""Rounds of reweighting: the predictions of one are the next one's weights."""


class Usual(NamedTuple):
    """Prior costs ``[A]`` (0: free, nan: unknown), and the kind of each ``[A]``."""

    costs: FloatArray
    kinds: IntArray


def nonnegative(
    matrix: FloatArray, seconds: FloatArray, floors: FloatArray, weights: FloatArray, usual: Usual | None = None
) -> FloatArray:
    """Costs ``[A]`` for which ``matrix @ costs`` is near ``seconds`` ``[R]`` in relation to itself.

    Reweighted until they agree: errors are relative to the prediction of the round before, and beyond `LINEAR_BEYOND`
    count by their size, not by its square. Usual costs count as much as rows that are as noisy as these.

    Args:
        matrix: amounts of each row ``[R, A]``.
        seconds: measured time of each row ``[R]``.
        floors: seconds added to predictions that errors are relative to ``[R]``.
        weights: weights of errors ``[R]``, without unit.
        usual: costs to lean on; None: there are none.

    Returns:
        Seconds for one of each amount ``[A]``.
    """
    from scipy.optimize import nnls

    costs, expected, calm, noise = np.zeros(matrix.shape[1]), seconds, np.ones(len(seconds)), 0.0
    for round_ in range(ROUNDS):
        each = weights * calm / (expected + floors)
        rows, targets = matrix * each[:, None], seconds * each
        if usual is not None:
            rows, targets = _with_usual(rows, targets, usual, noise)
        scale = np.maximum(np.abs(rows).max(axis=0), 1e-300)
        costs = (nnls(rows / scale, targets, maxiter=100 * len(scale))[0] / scale)[: matrix.shape[1]]
        now = matrix @ costs
        off = np.abs(now - seconds) / (now + floors)
        noise = float(np.sqrt(np.sum((weights * calm * off) ** 2) / np.sum(weights**2)))
        if round_ >= ROUNDS // 4:  # after the predictions have settled: costs that noise pulled down would stay low
            calm = np.sqrt(np.minimum(1.0, LINEAR_BEYOND / np.maximum(off, 1e-12)))
        expected = (expected + now) / 2
    found: FloatArray = costs
    return found


def _with_usual(rows: FloatArray, targets: FloatArray, usual: Usual, noise: float) -> tuple[FloatArray, FloatArray]:
    """The rows ``[R, A]``, with a column more for each kind of kernel and a row more for each cost that is held."""
    kind_count, (count, amounts) = int(usual.kinds.max()) + 1, rows.shape
    held = np.zeros((amounts, amounts + kind_count))
    most = np.abs(rows).max(axis=0)
    for amount in np.flatnonzero(~np.isnan(usual.costs)).tolist():
        if usual.costs[amount] > 0.0:
            held[amount, amount] = noise / USUAL_OFF / usual.costs[amount]
            held[amount, amounts + usual.kinds[amount]] = -noise / USUAL_OFF
        else:
            held[amount, amount] = noise / UNUSUAL_SHARE * most[amount]
    wider = np.hstack([rows, np.zeros((count, kind_count))])
    return np.vstack([wider, held]), np.append(targets, np.zeros(amounts))
