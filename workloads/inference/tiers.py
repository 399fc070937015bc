"""Rows of a batch by the tier that they are in: cache of the server, host memory of its node, SSDs.

Both the cache and host memory keep the rows that were used last (LRU), by Che's approximation as
`workloads.dlrm.laws.popularity` has it. The cache sees all lookups: it lacks a row of popularity p with probability
``(1 - p)^T``, where T lookups touch as many rows as it holds. Host memory sees the lookups that miss the cache, as if
they were independent: rows of popularity proportional to ``p (1 - p)^T``. Caches of several servers on a node miss
alike, so that their number changes nothing in the mix.

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
        """Rows of a batch of so many lookups ``[5]``: see `BatchRows`."""
        count = self.popularity.count
        touched = -np.expm1(lookups * np.log1p(-self.popularity.p))
        missing = touched * self.not_cached
        ssd = missing * self.not_in_host
        host = missing - ssd
        sums = (touched, host, ssd, host * (1.0 - host), ssd * (1.0 - ssd))
        return np.array([float(count @ values) for values in sums])


@dataclass(frozen=True, slots=True, eq=False)
class BatchRows:
    """Rows of a batch of one server, of each table ``[N]``.

    Attributes:
        lookups: lookups.
        distinct: distinct rows among them.
        host: distinct rows that the cache lacks and host memory has.
        ssd: distinct rows that only SSDs have.
        host_variance: variance of ``host`` from batch to batch; rows are drawn independently.
        ssd_variance: variance of ``ssd``.
    """

    lookups: FloatArray
    distinct: FloatArray
    host: FloatArray
    ssd: FloatArray
    host_variance: FloatArray
    ssd_variance: FloatArray

    @property
    def missing(self) -> float:
        """Distinct rows of all tables that the cache lacks."""
        return float(self.host.sum() + self.ssd.sum())

    def shares(self) -> dict[str, float]:
        """Fraction of lookups that each tier serves; a missing row is fetched once, for all its lookups."""
        lookups, host, ssd = (float(values.sum()) for values in (self.lookups, self.host, self.ssd))
        return {"gpu_cache": 1.0 - (host + ssd) / lookups, "host_memory": host / lookups, "ssd": ssd / lookups}


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
    distinct, host, ssd, host_variance, ssd_variance = found.T
    return BatchRows(samples * per_sample, distinct, host, ssd, host_variance, ssd_variance)


@lru_cache(maxsize=16384)
def tiers_of(law: Law, rows: int, lookups: float, samples: int, cached: float, in_host: float) -> TableTiers:
    """Tiers of a table's rows.

    Args:
        lookups: lookups of a batch of ``samples`` samples, to which the law refers.
        cached: fraction of the rows that the cache holds.
        in_host: fraction of the rows that host memory holds.
    """
    of = law.popularity(rows, lookups, samples)
    not_cached = lacking(of, np.floor(cached * rows))
    seen = of.share * not_cached
    total = float(seen.sum())
    if total <= 0.0:
        return TableTiers(of, not_cached, np.zeros_like(not_cached))
    return TableTiers(of, not_cached, lacking(Popularity(of.count, seen / total), np.floor(in_host * rows)))


def lacking(of: Popularity, held_rows: float) -> FloatArray:
    """Probability that an LRU cache of so many rows lacks a row of each bin ``[K]`` when it is looked up."""
    if held_rows >= of.rows:
        return np.zeros_like(of.count)
    window = float(of.characteristic_lookups(held_rows))
    log = np.log1p(-of.p)
    return np.exp(np.where(log == 0.0, 0.0, window * log)) if np.isfinite(window) else (log == 0.0).astype(np.float64)
