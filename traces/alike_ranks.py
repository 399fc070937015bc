"""Ranks whose tasks differ in their seconds only, kept as columns instead of a `RankTasks` each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.operators import Amount, Delay, FloatArray, Measured
from simulator.program import IntArray
from traces.rank_tasks import RankTasks


@dataclass(frozen=True, slots=True)
class AlikeRanks:
    """P ranks with the T tasks of the first.

    Attributes:
        tasks: tasks of the first rank.
        ranks: global ranks in the order of their traces ``[P]``.
        sources: trace of each rank, for messages ``[P]``.
        places: place of each trace among all traces of the job, ascending ``[P]``.
        seconds: seconds of `Measured` and `Delay` tasks ``[T, P]``; None: as in ``tasks``, for one rank.
    """

    tasks: RankTasks
    ranks: IntArray
    sources: Sequence[str]
    places: Sequence[int]
    seconds: FloatArray | None = None

    @classmethod
    def each(cls, ranks: Sequence[RankTasks]) -> list[AlikeRanks]:
        """Every rank by itself."""
        return [cls(own, np.array([own.rank]), (own.source,), (place,)) for place, own in enumerate(ranks)]

    def seconds_of(self, task: int) -> Amount:
        """Seconds of a `Measured` or `Delay`: one number where the ranks agree, else ``[P]``."""
        if self.seconds is None:
            work = self.tasks.work[task]
            return work.seconds if isinstance(work, Measured | Delay) else 0.0
        row = self.seconds[task]
        return float(row[0]) if (row == row[0]).all() else row
