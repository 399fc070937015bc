"""Lengths of unions of intervals, for many ranks at once.

Sort all starts and, apart from them, all ends. At time t the number of open intervals is the number of starts up to t
less the number of ends up to t, so nothing is open exactly between the k-th end and the (k+1)-th start wherever the
former comes first. The union is the whole extent less these gaps. No interval has to keep its own end, so two plain
sorts do, in integers.
"""

from __future__ import annotations

import numpy as np

from simulator.program import IntArray


def union_length(starts: IntArray, ends: IntArray) -> IntArray:
    """Length of the union of the intervals of each row.

    Args:
        starts: ``[P, N]``.
        ends: ``[P, N]``, each at or after its start; empty intervals count for nothing.

    Returns:
        ``[P]``, in the unit of the arguments.
    """
    if starts.shape[1] == 0:
        return np.zeros(starts.shape[0], dtype=np.int64)
    opened, closed = np.sort(starts, axis=1), np.sort(ends, axis=1)
    gaps = np.maximum(opened[:, 1:] - closed[:, :-1], 0).sum(axis=1)
    length: IntArray = closed[:, -1] - opened[:, 0] - gaps
    return length
