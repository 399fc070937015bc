"""Classes of ranks: ranks of a program group that do the same at the same times stand in one column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from simulator.operators import FloatArray
from simulator.program import IntArray

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class RankClasses:
    """Classes of the ranks of a group, in the order of their first ranks.

    Attributes:
        first: place of the first rank of each class within the group ``[C]``, ascending.
        of_rank: class of each rank ``[P]``.
    """

    first: IntArray
    of_rank: IntArray

    @staticmethod
    def each(ranks: int) -> RankClasses:
        """A class of its own for each rank."""
        everyone = np.arange(ranks)
        return RankClasses(everyone, everyone)

    @cached_property
    def sizes(self) -> IntArray:
        """Number of ranks of each class ``[C]``."""
        return np.bincount(self.of_rank, minlength=len(self.first))

    @property
    def are_single(self) -> bool:
        """Whether each class has one rank."""
        return len(self.first) == len(self.of_rank)

    def on_ranks(self, columns: NDArray[Number]) -> NDArray[Number]:
        """Columns of classes ``[..., C]`` as columns of ranks ``[..., P]``."""
        return columns if self.are_single else np.take(columns, self.of_rank, axis=-1)


def classes_of(ranks: int, rows: Iterable[IntArray | FloatArray]) -> RankClasses:
    """Ranks that have the same number in each of the rows.

    Args:
        ranks: number of ranks P.
        rows: ``[P]`` each; rows of one number, and ``[1]``, divide nothing.
    """
    code, count = np.zeros(ranks, dtype=np.int64), 1
    for row in rows:
        if count == ranks or len(row) == 1 or bool((row == row[0]).all()):
            continue
        found, number = np.unique(row, return_inverse=True)
        known, code = np.unique(code * len(found) + number, return_inverse=True)
        count = len(known)
    if count == ranks:
        return RankClasses.each(ranks)
    _, first = np.unique(code, return_index=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return RankClasses(first[order], place[code])
