"""Division of a lookup among threads of a CPU: each takes equally many consecutive bags, whatever their length.

PyTorch's ``embedding_bag`` splits its bags so (``at::parallel_for`` in ``aten/src/ATen/native/EmbeddingBag.cpp``). Bags
lie source by source, table by table, sample by sample. Where tables of large pooling are neighbours one thread has most
of the rows, and the others wait for it.
"""

from __future__ import annotations

import numpy as np

from simulator.operators import FloatArray


def busiest(bags: FloatArray, amounts: FloatArray, threads: int, sources: int) -> FloatArray:
    """The most that one thread has of each amount, times the number of threads ``[A]``.

    Args:
        bags: number of bags of each table and source in memory order ``[S]``; above 0.
        amounts: amounts of each table, the same in all its bags ``[S, A]``.
        threads: number of threads.
        sources: ranks that the bags are from; each has those of all tables.
    """
    places = np.append(0.0, np.cumsum(bags)) / bags.sum()
    before = np.vstack([np.zeros(amounts.shape[1]), np.cumsum(amounts, axis=0)])
    whole, part = np.divmod(np.arange(threads + 1) * sources / threads, 1.0)
    within = np.stack([np.interp(part, places, column) for column in before.T], axis=1)
    reached = (whole[:, None] * before[-1] + within) / sources
    return np.asarray(threads * np.diff(reached, axis=0).max(axis=0))
