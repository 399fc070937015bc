"""Rows of a batch by the tier that they are in: cache of the server, host memory of its node, SSDs.

Both the cache and host memory keep the rows that were used last (LRU), by Che's approximation as
`workloads.dlrm.laws.popularity` has it. The cache sees all lookups: it lacks a row that is looked up at rate p with
probability ``exp(-p T)``, where T lookups touch as many rows as it holds. Host memory sees only misses of the cache:
those of a row are ``1 / r`` lookups apart in the mean, with ``r = p exp(-p T)``, and never closer than T. So the time
from one to the next is taken as T and an exponential time of mean ``1 / r - T`` (Che, Tung, Wang, IEEE JSAC 20, 2002,
have T of the two caches alone). Host memory keeps rows whose last miss is at most U lookups ago, where U makes as many
of them as it holds. Caches of several servers on a node miss alike, so that their number changes nothing in the mix.

The popularity of rows does not depend on the batch: a law that repeats rows as a measured histogram does is the one of
the largest batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from simulator.operators import FloatArray
from workloads.dlrm.laws.index_laws import Law
from workloads.dlrm.laws.popularity import Popularity
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.traffic import laws_of
from workloads.inference.settings import InferenceSettings


@dataclass(frozen=True, slots=True, eq=False)
class TableTiers:
    """Tiers of the rows of one table, in bins of equally popular rows.

    Attributes:
        popularity: popularity of the rows.
        not_cached: probability that the cache lacks a row of each bin ``[K]``.
        not_in_host: probability that host memory lacks a row that the cache lacks ``[K]``.
    """

    popularity: Popularity
    not_cached: FloatArray
    not_in_host: FloatArray

    def rows(self, lookups: float) -> FloatArray:
        """Rows of a batch of so many lookups, and lookups that the cache serves ``[6]``: see `BatchRows`."""
        count = self.popularity.count
        touched = -np.expm1(lookups * np.log1p(-self.popularity.p))
        missing = touched * self.not_cached
        ssd = missing * self.not_in_host
        host = missing - ssd
        held = lookups * self.popularity.p * (1.0 - self.not_cached)
        sums = (touched, host, ssd, host * (1.0 - host), ssd * (1.0 - ssd), held)
        return np.array([float(count @ values) for values in sums])


@dataclass(frozen=True, slots=True, eq=False)
class BatchRows:
    """Rows of a batch of one server, of each table ``[N]``.

    Attributes:
        distinct: distinct rows among the lookups.
        host: distinct rows that the cache lacks and host memory has.
        ssd: distinct rows that only SSDs have.
        host_variance: variance of ``host`` from batch to batch; rows are drawn independently.
        ssd_variance: the same for rows of SSDs.
        held: lookups of rows that the cache has when the batch comes.
    """

    lookups: FloatArray
    distinct: FloatArray
    host: FloatArray
    ssd: FloatArray
    host_variance: FloatArray
    ssd_variance: FloatArray
    held: FloatArray

    @property
    def missing(self) -> float:
        """Distinct rows of all tables that the cache lacks."""
        return float(self.host.sum() + self.ssd.sum())

    def shares(self) -> dict[str, float]:
        """Fraction of lookups that each tier serves.

        A missing row is fetched once; its other lookups in the batch, ``repeated``, find it in the cache because of
        that.
        """
        lookups = float(self.lookups.sum())
        parts = {"gpu_cache": self.held, "host_memory": self.host, "ssd": self.ssd}
        shares = {name: float(part.sum()) / lookups for name, part in parts.items()}
        return {**shares, "repeated": max(0.0, 1.0 - sum(shares.values()))}


def rows_of_batch(tables: Tables, settings: InferenceSettings, samples: int) -> BatchRows:
    """Rows of a batch of ``samples`` samples.

    Raises:
        InputError: a file of indices looks up rows that a table lacks.
    """
    per_sample, cache = tables.lookups_per_sample, 0.0 if settings.gpu_cache is None else settings.gpu_cache
    laws = laws_of(tables, settings.dlrm(settings.most))
    found = np.array(
        [
            tiers_of(law, rows, settings.most * each, settings.most, cache, settings.host_memory).rows(samples * each)
            for law, rows, each in zip(laws, tables.rows.tolist(), per_sample.tolist(), strict=True)
        ]
    )
    return BatchRows(samples * per_sample, *found.T)


@lru_cache(maxsize=16384)
def tiers_of(law: Law, rows: int, lookups: float, samples: int, cached: float, in_host: float) -> TableTiers:
    """Tiers of a table's rows.

    Args:
        lookups: lookups of a batch of ``samples`` samples, to which the law refers.
        cached: fraction of the rows that the cache holds.
        in_host: fraction of the rows that host memory holds.
    """
    of = law.popularity(rows, lookups, samples)
    rate, held, kept = -np.log1p(-of.p), np.floor(cached * rows), np.floor(in_host * rows)
    reach = float(of.characteristic_lookups(held))
    if held >= rows or np.isinf(reach):
        return TableTiers(of, np.zeros_like(rate), np.zeros_like(rate))
    not_cached = np.exp(-rate * reach)
    missed = _Missed(of.count, rate * not_cached, reach)
    if kept >= float(of.count[missed.rate > _NEVER].sum()):
        return TableTiers(of, not_cached, np.zeros_like(rate))
    return TableTiers(of, not_cached, missed.later_than(missed.window(kept)))


@dataclass(frozen=True, slots=True, eq=False)
class _Missed:
    """Misses of a cache, by row.

    Attributes:
        count: rows of each bin ``[K]``.
        rate: misses of a row per lookup ``[K]``.
        least: least lookups from one miss of a row to the next.
    """

    count: FloatArray
    rate: FloatArray
    least: float

    def later_than(self, lookups: float) -> FloatArray:
        """Probability that the next miss of a row comes later than so many lookups after one ``[K]``."""
        beyond = max(0.0, lookups - self.least)
        return np.exp(-beyond * self.rate / (1.0 - self.rate * self.least))

    def within(self, lookups: float) -> float:
        """Rows with a miss among the last so many lookups: age of a renewal process."""
        sure = self.rate * min(lookups, self.least)
        rest = (1.0 - self.rate * self.least) * (1.0 - self.later_than(lookups))
        return float(self.count @ (sure + rest))

    def window(self, rows: float) -> float:
        """Lookups among which ``rows`` rows have a miss."""
        low, high = 0.0, max(self.least, 1.0)
        while self.within(high) < rows:
            low, high = high, 2.0 * high
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.within(middle) < rows else (low, middle)
        return high


_HALVINGS = 50
"""Halvings of the bracket of a window: as exact as a double."""

_NEVER = 1e-30
"""Misses of a row per lookup below which it has none in the life of a machine."""
