"""Popularity of the rows of a table, and its consequences for a batch, a cache and a block of rows.

Every law (uniform, Zipf, counted indices) is one form: bins of equally popular rows in the order of popularity. A bin
holds ``count`` rows that take ``share`` of all lookups together, so each of its rows is looked up with probability
``p = share / count``, independently of the lookups before. With ``D(t) = sum over rows of 1 - (1 - p)^t``:

- ``t`` lookups touch ``D(t)`` distinct rows;
- an LRU cache of C rows holds the rows of the last T lookups, where ``D(T) = C``, and a lookup misses with probability
  ``sum of p (1 - p)^T`` (Che, Tung, Wang, Hierarchical web caching systems, IEEE JSAC 20, 2002; why it is exact to
  within a few percent: Fricker, Robert, Roberts, A versatile and accurate approximation for LRU cache performance,
  ITC 24, 2012);
- batches of n lookups whose rows are fetched once each leave the cache ``D(T + n) - D(T)`` rows to fetch;
- an LFU cache holds the C most popular rows.

All sums are over bins, some hundreds for any number of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray

Order: TypeAlias = Literal["hashed", "popularity"]
"""Position of popular rows in the table: spread by hashing, or the most popular first (frequency-ordered ids)."""

HEAD = 1024
"""Rows that hashing places one by one; the others spread evenly."""

_SINGLE = 64
"""Number of most popular rows that a Zipf law keeps one by one; the others are in bins."""

_GROWTH = 1.06
"""A bin of a Zipf law ends at most 6 % behind its start, so that its rows' popularity differs as little."""

_MOST_LIKELY = 1.0 - 1e-15
"""A table of one row has p = 1, whose logarithm of 1 - p is not finite."""

_STEEPEST, _CLOSE = 8.0, 1e-9
"""The largest exponent that `zipf_touching` tries, and how near the distinct rows must come, relative."""

_WINDOWS = 32
"""Points of `missed`: two windows are a factor 1.6 apart in a million lookups."""

_STEPS, _PRECISION = 200, 1e-10
"""Steps of a solution at most, and the relative step at which the characteristic time is found."""


@dataclass(frozen=True, slots=True, eq=False)
class RowOrder:
    """Positions of the rows of a law, as far as they were counted.

    Attributes:
        rows: the most popular rows, the first one first ``[H]``.
        others: share of the other rows' lookups in each of equal ranges of the table ``[M]``, sums to 1.
    """

    rows: IntArray
    others: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Popularity:
    """A law over the rows of one table.

    Attributes:
        count: rows of each bin ``[K]``, whole numbers.
        share: share of all lookups that the bin's rows take together ``[K]``, sums to 1; ``share / count`` never rises.
        order: position of popular rows in the table.
        salt: salt of the hash, another one for each table.
        place: counted positions of popular rows, instead of ``order``.
    """

    count: FloatArray
    share: FloatArray
    order: Order = "hashed"
    salt: int = 0
    place: RowOrder | None = None

    @property
    def rows(self) -> float:
        """R, the rows of the table."""
        return float(self.count.sum())

    @property
    def p(self) -> FloatArray:
        """Probability of each row of each bin ``[K]``."""
        return np.minimum(self.share / self.count, _MOST_LIKELY)

    @property
    def collision(self) -> float:
        """Probability that two lookups are of one row: the sum of p squared over rows."""
        return float(self.share @ self.p)

    def distinct(self, lookups: FloatArray | float) -> FloatArray:
        """Rows that ``lookups [...]`` lookups touch in the mean, D ``[...]``."""
        return np.asarray(_touched(self.count, self.share, lookups))

    def hit_rate(self, cache_rows: FloatArray | float, lookups: float = np.inf) -> FloatArray:
        """Share of lookups that an LRU cache of ``cache_rows [...]`` rows serves ``[...]``.

        Args:
            lookups: since the cache was empty, so that first touches count as misses; none are left by default.
        """
        window = np.minimum(self.characteristic_lookups(cache_rows), lookups)
        decay = np.exp(_times(window, np.log1p(-self.p)))
        missing = decay @ self.share  # 0 where everything fits
        if np.isinf(lookups):
            return np.asarray(1.0 - missing)
        filled = (1.0 - decay) @ self.count
        return np.asarray(1.0 - (filled + (lookups - window) * missing) / lookups)

    def missed(self, lookups: float) -> tuple[FloatArray, FloatArray]:
        """Rows that an LRU cache holds and the share of ``lookups`` lookups that miss it, empty before ``[W + 1]``.

        The curve of ``1 - hit_rate(rows, lookups)`` at windows T of which D(T) is known instead of solved; between
        its points it is all but straight.
        """
        window = _windows(max(lookups, 1.0))
        decay = np.exp(_times(window, np.log1p(-self.p)))
        filled = (1.0 - decay) @ self.count
        missing = (filled + (lookups - window) * (decay @ self.share)) / max(lookups, 1.0)
        return np.append(0.0, filled), np.append(1.0, np.minimum(missing, 1.0))

    def fetched(self, cache_rows: FloatArray | float, lookups: float) -> FloatArray:
        """Distinct rows of a batch of ``lookups`` lookups that a cache of ``cache_rows [...]`` rows lacks ``[...]``.

        The cache is LRU, has served such batches for long, and fetches a row once per batch.
        """
        window = self.characteristic_lookups(cache_rows)
        log = np.log1p(-self.p)
        return np.asarray((np.exp(_times(window, log)) * -np.expm1(lookups * log)) @ self.count)

    def characteristic_lookups(self, cache_rows: FloatArray | float) -> FloatArray:
        """Lookups T that touch ``cache_rows [...]`` distinct rows, D(T) = C ``[...]``; infinite where all rows fit.

        D is concave and below T, so that Newton's steps from T = C rise to the solution and never pass it.
        """
        wanted = np.atleast_1d(np.asarray(cache_rows, dtype=np.float64))
        fits = wanted >= self.count[self.share > 0.0].sum() * (1.0 - 1e-12)
        target = np.where(fits, 0.0, np.maximum(wanted, 0.0))
        window, log = target.copy(), np.log1p(-self.p)
        for _ in range(_STEPS):
            decay = np.exp(_times(window, log))
            slope = (decay * -log) @ self.count
            step = (target - (1.0 - decay) @ self.count) / slope
            window += step
            if np.all(np.abs(step) <= _PRECISION * np.maximum(window, 1.0)):
                break
        return np.where(fits, np.inf, window).reshape(np.shape(cache_rows))

    def block_shares(self, edges: IntArray) -> FloatArray:
        """Share of all lookups that goes to each block of rows ``[B]``; sums to 1 over the whole table.

        Args:
            edges: first row of each block and the end of the last ``[B + 1]``, ascending, from 0 to R.
        """
        return np.asarray(self._over_blocks(self.share[None], edges)[0])

    def block_distinct(self, edges: IntArray, lookups: float) -> FloatArray:
        """Distinct rows that ``lookups`` lookups into the table touch in each block ``[B]``; edges as above."""
        return np.asarray(self._over_blocks(self._touched_by(lookups)[None], edges)[0])

    def block_parts(self, edges: IntArray, lookups: float) -> FloatArray:
        """`block_shares`, and the share of each block in the rows of `block_distinct` ``[2, B]``."""
        shares, touched = self._over_blocks(np.stack([self.share, self._touched_by(lookups)]), edges)
        return np.stack([shares, touched / touched.sum()])

    def _touched_by(self, lookups: float) -> FloatArray:
        """Distinct rows of each bin that ``lookups`` lookups touch ``[K]``."""
        return np.asarray(-np.expm1(lookups * np.log1p(-self.p)) * self.count)

    def ranks(self, u: FloatArray) -> IntArray:
        """Popularity rank, from 0 on, of each draw ``[n]``: the law's inverse at ``u`` in [0, 1)."""
        if len(self.count) == 1:
            return np.asarray(np.minimum(u * self.count[0], self.count[0] - 1.0), dtype=np.int64)
        ends = np.cumsum(self.share)
        bins = np.minimum(np.searchsorted(ends, u * ends[-1], side="right"), len(ends) - 1)
        first = np.cumsum(self.count)[bins] - self.count[bins]
        inside = (u * ends[-1] - (ends[bins] - self.share[bins])) / self.share[bins]
        offset = np.clip(np.floor(inside * self.count[bins]), 0, self.count[bins] - 1)
        return np.asarray(first + offset, dtype=np.int64)

    def positions(self, ranks: IntArray) -> IntArray:
        """Row at which each popularity rank stands ``[n]``."""
        if self.place is not None:
            known = np.minimum(ranks, len(self.place.rows) - 1)
            return np.where(ranks == known, self.place.rows[known], scattered(ranks, round(self.rows), self.salt))
        return ranks if self.order == "popularity" else scattered(ranks, round(self.rows), self.salt)

    def _over_blocks(self, amounts: FloatArray, edges: IntArray) -> FloatArray:
        """Bin amounts ``[A, K]`` as they fall on blocks ``[A, B]``: rows with a place there, others in between."""
        edges = np.asarray(edges, dtype=np.int64)
        if len(self.count) == 1:
            return np.asarray(np.diff(edges) * (amounts / self.count[0]))
        if self.place is None and self.order == "popularity":
            ends = edges.astype(np.float64)
            return np.stack([np.diff(_cumulative(self.count, amount, ends)) for amount in amounts])
        place = self.place or _hashed(round(self.rows), self.salt)
        each = _of_head(self.count, amounts, len(place.rows))
        block = np.searchsorted(edges, place.rows, side="right") - 1
        known = np.stack([np.bincount(block, weights=of_row, minlength=len(edges) - 1) for of_row in each])
        ranges = np.linspace(0.0, self.rows, len(place.others) + 1)
        profile = np.interp(edges, ranges, np.concatenate([[0.0], np.cumsum(place.others)]))
        rest = [amount.sum() - of_row.sum() for amount, of_row in zip(amounts, each, strict=True)]
        return np.asarray(known + np.multiply.outer(rest, np.diff(profile)))


def uniform(rows: int) -> Popularity:
    """All rows alike."""
    return Popularity(np.array([float(rows)]), np.ones(1))


def zipf(rows: int, exponent: float, order: Order = "hashed") -> Popularity:
    """Zipf's law, p proportional to rank^-exponent, its sum replaced by the integral of x^-exponent on [1, R + 1)."""
    if exponent == 0.0:
        return uniform(rows)
    count, log = _bins(rows)
    return Popularity(count, _zipf_shares(log, exponent), order)


def zipf_touching(rows: int, lookups: float, distinct: float, order: Order = "hashed") -> Popularity:
    """The Zipf law of which ``lookups`` lookups touch ``distinct`` rows; uniform where chance alone repeats more.

    Regula falsi on the logarithm of the distinct rows, which fall with the exponent (Illinois variant: Dowell and
    Jarratt, BIT 11, 1971).
    """
    chance = float(uniform(rows).distinct(lookups))
    if rows == 1 or distinct >= chance * (1.0 - 1e-9):
        return uniform(rows)
    low, high = 0.0, _STEEPEST
    above, below = math.log(chance / distinct), math.log(float(zipf(rows, high).distinct(lookups)) / distinct)
    if below >= 0.0:
        return zipf(rows, high, order)
    kept, (count, log) = 0, _bins(rows)
    for _ in range(_STEPS):
        middle = (low * below - high * above) / (below - above)
        found = math.log(float(_touched(count, _zipf_shares(log, middle), lookups)) / distinct)
        if abs(found) < _CLOSE:
            break
        if found > 0.0:
            low, above, below, kept = middle, found, below / 2 if kept > 0 else below, 1
        else:
            high, below, above, kept = middle, found, above / 2 if kept < 0 else above, -1
    return zipf(rows, middle, order)


def _zipf_shares(log: FloatArray, exponent: float) -> FloatArray:
    """Shares of bins ``[K]`` between edges of these logarithms ``[K + 1]``."""
    power = 1.0 - exponent
    reach = log if abs(power) < 1e-9 else np.expm1(power * log) / power
    return np.asarray((reach[1:] - reach[:-1]) / reach[-1])


def _touched(count: FloatArray, share: FloatArray, lookups: FloatArray | float) -> FloatArray:
    """See `Popularity.distinct`."""
    p = np.minimum(share / count, _MOST_LIKELY)
    return -np.expm1(_times(lookups, np.log1p(-p))) @ count


def _windows(last: float) -> FloatArray:
    """Numbers of lookups from 1 to ``last`` by equal factors ``[_WINDOWS]``: numpy's ``geomspace``, made faster."""
    power = np.arange(_WINDOWS) * (np.log10(last) / (_WINDOWS - 1))
    window = 10.0**power
    window[0], window[-1] = 1.0, last
    return np.asarray(window)


def scattered(ranks: IntArray, rows: int, salt: int = 0) -> IntArray:
    """Rows of popularity ranks ``[n]``: a one-to-one map that spreads popular rows over the table, as hashing does."""
    return (ranks * _stride(rows) + salt % rows) % rows


@lru_cache(maxsize=4096)
def _hashed(rows: int, salt: int) -> RowOrder:
    """Rows of the head where the hash puts them; the others evenly."""
    return RowOrder(scattered(np.arange(min(HEAD, rows)), rows, salt), np.ones(1))


@lru_cache(maxsize=4096)
def _edges(rows: int) -> FloatArray:
    """Edges of bins of popularity ranks, from 1 to rows + 1: one row each, then bins that grow by `_GROWTH`."""
    head = np.arange(1.0, min(rows, _SINGLE) + 2.0)
    if rows <= _SINGLE:
        return head
    bins = max(1, math.ceil(math.log((rows + 1.0) / head[-1]) / math.log(_GROWTH)))
    return np.concatenate([head, np.unique(np.round(np.geomspace(head[-1], rows + 1.0, bins + 1)))[1:]])


@lru_cache(maxsize=4096)
def _bins(rows: int) -> tuple[FloatArray, FloatArray]:
    """Rows of each bin ``[K]``, and logarithms of the edges ``[K + 1]``."""
    edges = _edges(rows)
    return np.diff(edges), np.log(edges)


@lru_cache(maxsize=4096)
def _stride(rows: int) -> int:
    """A number near rows / golden ratio that shares no factor with rows: multiples of it are spread evenly."""
    stride = max(1, int(rows * 0.6180339887498949))
    while math.gcd(stride, rows) != 1:
        stride += 1
    return stride


def _times(lookups: FloatArray | float, log: FloatArray) -> FloatArray:
    """``lookups [...]`` times ``log [K]``, ``[..., K]``; rows that nothing looks up stay at 0 for ever."""
    never = log == 0.0
    if not never.any():
        return np.multiply.outer(np.asarray(lookups, dtype=np.float64), log)
    with np.errstate(invalid="ignore"):
        return np.where(never, 0.0, np.multiply.outer(np.asarray(lookups, dtype=np.float64), log))


def _cumulative(count: FloatArray, amount: FloatArray, rows: FloatArray) -> FloatArray:
    """Part of bin amounts ``[K]`` that the ``rows [...]`` most popular rows have ``[...]``."""
    ends = np.concatenate([[0.0], np.cumsum(count)])
    return np.asarray(np.interp(rows, ends, np.concatenate([[0.0], np.cumsum(amount)])))


def _of_head(count: FloatArray, amounts: FloatArray, head: int) -> FloatArray:
    """Amounts ``[A, K]`` of each of the ``head`` most popular rows ``[A, head]``."""
    bins = np.searchsorted(np.cumsum(count), np.arange(head), side="right")
    return np.asarray(amounts[:, bins] / count[bins])
