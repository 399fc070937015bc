"""Messages between two ranks, as stages of a pipeline exchange them: calls of communicators of two members."""

from __future__ import annotations

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.operators import Amount
from simulator.program import IntArray


def pairs(world_size: int, ones: IntArray, others: IntArray) -> IntArray:
    """Instances of pairs of ranks: the n-th of ``ones`` with the n-th of ``others`` ``[world_size]``."""
    found = np.full(world_size, -1, dtype=np.int64)
    for ranks in (ones, others):
        found[ranks] = np.arange(len(ranks))
    return found


def message(communicator: str, size: Amount, dtype: str, *, to_higher: bool) -> CollectiveCall:
    """A message of ``size`` bytes, a number or ``[P]``, from one member of a pair to the other.

    Args:
        to_higher: whether the member with the higher rank number receives.
    """
    return CollectiveCall("send", communicator, size, dtype, root=int(to_higher), in_step=True)
