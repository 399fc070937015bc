"""Counts of a file of indices, small enough to stand in a scenario."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from inputs.errors import InputError
from inputs.model import Strict, problem
from inputs.quantities import Count, Quantity
from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.laws.popularity import Popularity, RowOrder

HOTTEST = 64
"""Rows whose place in the table is kept, and ranges of the table in which the others are counted."""

_EXACT, _GROWTH = 64, 1.06
"""Lookups per row up to which rows with equal numbers share a bin; beyond, numbers within 6 % do."""

Positive = Annotated[int, Quantity("count", 1)]


class CountedRows(Strict):
    """Lookups of the rows of one table."""

    highest: Count = Field(description="the largest index")
    bins: Annotated[tuple[tuple[Positive, Positive], ...], Field(min_length=1)] = Field(
        description="(rows, lookups of all of them), the most popular first"
    )
    hottest: Annotated[tuple[Count, ...], Field(min_length=1)] = Field(description="the most popular rows")
    others: Annotated[tuple[Count, ...], Field(min_length=1)] = Field(
        description="lookups of the other rows in equal ranges of the rows from 0 to the largest index"
    )

    @model_validator(mode="after")
    def _rows_exist(self) -> Self:
        if max(self.hottest) > self.highest or sum(rows for rows, _ in self.bins) > self.highest + 1:
            raise problem("more rows than there are indices", expected=f"rows up to {self.highest}", key="bins")
        return self

    def popularity(self, rows: int) -> Popularity:
        """The law over a table of ``rows`` rows.

        Rows that the file does not look up have a chance as well. Each row that it does gives up d = f1 / (f1 + 2 f2)
        of a lookup to them, where f1 and f2 rows were looked up once and twice (absolute discounting: Ney, Essen,
        Kneser, Computer Speech and Language 8, 1994), but no more than makes them as popular as the mean row.

        Raises:
            InputError: the file looks up rows that the table lacks.
        """
        if self.highest >= rows:
            raise InputError(
                "the file of indices looks up a row that the table lacks",
                given=self.highest,
                expected=f"0 to {rows - 1}, the table has {rows} rows",
            )
        count, lookups = (np.array(part, dtype=np.float64) for part in zip(*self.bins, strict=True))
        unseen, total = rows - count.sum(), lookups.sum()
        once, twice = (float(count[lookups == n * count].sum()) for n in (1, 2))
        discount = once / (once + 2.0 * twice) if once else 0.0
        new = min(discount * count.sum() / total, unseen / rows)
        share = (lookups - new * total * count / count.sum()) / total
        if unseen > 0:
            count, share = np.append(count, unseen), np.append(share, new)
        order = np.argsort(-share / count, kind="stable")
        return Popularity(count[order], share[order], place=self._place(rows))

    def _place(self, rows: int) -> RowOrder:
        others, size = np.array(self.others, dtype=np.float64), (self.highest + 1) / len(self.others)
        edges = np.append(np.arange(len(others) + 1) * size, rows)
        total = others.sum()
        ranges = np.linspace(0.0, rows, max(len(others), 1) + 1)
        cumulative = np.interp(ranges, edges, np.concatenate([[0.0], np.cumsum(others), [total]]))
        even = np.full(len(others), 1.0 / len(others))
        return RowOrder(np.array(self.hottest), np.diff(cumulative) / total if total else even)


def count_rows(rows: IntArray, lookups: IntArray) -> CountedRows:
    """Condensed counts of the lookups of rows.

    Args:
        rows: distinct rows ``[U]``, ascending.
        lookups: number of lookups of each of them ``[U]``.
    """
    highest = int(rows[-1])
    by_popularity = np.argsort(-lookups, kind="stable")
    hottest = by_popularity[:HOTTEST]
    rest = by_popularity[HOTTEST:]
    edges = np.linspace(0.0, highest + 1.0, HOTTEST + 1)
    others = np.histogram(rows[rest], edges, weights=lookups[rest].astype(np.float64))[0]
    return CountedRows(
        highest=highest,
        bins=_bins(lookups),
        hottest=tuple(rows[hottest].tolist()),
        others=tuple(round(n) for n in others.tolist()),
    )


def _bins(lookups: IntArray) -> tuple[tuple[int, int], ...]:
    """(rows, lookups) of rows with like numbers of lookups, the most popular first."""
    values, rows = np.unique(lookups, return_counts=True)
    size: FloatArray = values.astype(np.float64)
    beyond = np.floor(np.log(np.maximum(size / _EXACT, 1.0)) / np.log(_GROWTH))
    groups = np.where(size <= _EXACT, size, _EXACT + 1 + beyond)
    starts = np.flatnonzero(np.diff(groups, prepend=-1.0))
    merged_rows = np.add.reduceat(rows, starts)
    merged = np.add.reduceat(values * rows, starts)
    return tuple(zip(merged_rows[::-1].tolist(), merged[::-1].tolist(), strict=True))
