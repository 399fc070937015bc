"""Click logs made up on the spot, with a signal to learn.

Clicks follow a hidden teacher: the logit is ``2 (a + b)`` with a = the dense features (uniform, variance 1) along a
hidden direction, and b = the sum of hidden effects of all rows looked up; both have a variance of about 1. A model that
has learnt everything would still be wrong often, as with real clicks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trainer.batches import Batch, IntArray, batch_from_arrays
from trainer.draws import BitArray, FloatArray, Purpose, normals, uniforms, unit
from trainer.job import TrainingJob
from workloads.dlrm.laws.pooling import FIXED, lengths
from workloads.dlrm.laws.popularity import Popularity
from workloads.dlrm.rows.traffic import popularity_of

LOGIT_SCALE = 2.0
"""Factor on the teacher's logit, whose two terms have a variance of 1 each: the best possible log loss is near 0.4."""

_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(0x9E3779B97F4A7C15))
"""Multipliers and increment of splitmix64 (Steele et al., Fast splittable pseudorandom number generators, 2014)."""


@dataclass(frozen=True, slots=True)
class _Feature:
    """Distributions of a feature: the popularity of rows, and the probability of each number of lookups per sample."""

    number: int
    table: int
    rows: Popularity
    lengths: FloatArray

    @property
    def longest(self) -> int:
        """The most lookups that a sample may have."""
        return int(np.flatnonzero(self.lengths)[-1])


class Synthetic:
    """A rank's part of seeded click logs; the batch of an iteration is the same for any number of ranks."""

    def __init__(self, job: TrainingJob, rank: int) -> None:
        """Work out each table's popularity law and the teacher's direction."""
        tables, settings = job.plan.tables, job.settings
        self._seed, self._settings = job.seed, settings
        self._size = settings.local_batch_size
        self._first = rank * self._size
        self._features = job.job.dense.dense_features
        direction = normals(self._seed, Purpose.TEACHER, 0, self._features)
        self._direction = direction / max(float(np.linalg.norm(direction)), 1e-12)
        laws = [popularity_of(tables, settings, table) for table in range(len(tables))]
        spreads = tables.pooling or (None,) * len(tables)
        pooling = [mean for table in range(len(tables)) for mean in tables.pooling_of_features(table)]
        chances = [
            (spreads[table] or FIXED).probabilities(mean)
            for table, mean in zip(job.table_of_feature, pooling, strict=True)
        ]
        self._features_of_tables = [
            _Feature(number, table, laws[table], chances[number]) for number, table in enumerate(job.table_of_feature)
        ]
        lookups = float(tables.lookups_per_sample.sum())
        self._effect_scale = math.sqrt(3.0 / max(lookups, 1.0))  # uniform(-1, 1) has variance 1/3

    def batch(self, iteration: int) -> Batch:
        """The rank's samples of an iteration."""
        dense = self._dense(iteration)
        logit = dense @ self._direction
        lengths, values = [], []
        for feature in self._features_of_tables:
            length, rows, effect = self._lookups(feature, iteration)
            lengths.append(length)
            values.append(rows)
            logit += effect
        clicked = uniforms(self._seed, Purpose.LABELS, 0, iteration, self._first, self._size)
        labels = (clicked * (1.0 + np.exp(-LOGIT_SCALE * logit)) < 1.0).astype(np.float64)
        return batch_from_arrays(
            dense,
            labels,
            lengths,
            values,
            index_bytes=self._settings.index_bytes,
            length_bytes=self._settings.length_bytes,
        )

    def _dense(self, iteration: int) -> FloatArray:
        """Dense features ``[B, F]``, uniform with mean 0 and variance 1."""
        start, count = self._first * self._features, self._size * self._features
        u = uniforms(self._seed, Purpose.DENSE_FEATURES, 0, iteration, start, count)
        return ((u - 0.5) * math.sqrt(12.0)).reshape(self._size, self._features)

    def _lookups(self, feature: _Feature, iteration: int) -> tuple[IntArray, IntArray, FloatArray]:
        """Lookups of each sample ``[B]``, the rows, and the teacher's effect on each sample ``[B]``."""
        most, start = feature.longest, self._first * feature.longest
        u = uniforms(self._seed, Purpose.INDICES, feature.number, iteration, start, self._size * most)
        rows = feature.rows.positions(feature.rows.ranks(u)).reshape(self._size, most)
        effects = _hidden_effects(self._seed, feature.table, rows) * self._effect_scale
        drawn = uniforms(self._seed, Purpose.LENGTHS, feature.number, iteration, self._first, self._size)
        length = lengths(feature.lengths, drawn)
        kept = np.arange(most) < length[:, None]
        return length, rows[kept], np.asarray((effects * kept).sum(axis=1))


def _hidden_effects(seed: int, table: int, rows: IntArray) -> FloatArray:
    """The teacher's effect of each row, in [-1, 1): a hash of seed, table and row (splitmix64)."""
    with np.errstate(over="ignore"):
        mixed: BitArray = rows.astype(np.uint64) * _MIX[2] + np.uint64((seed * 1_000_003 + table) % 2**64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
        mixed ^= mixed >> np.uint64(31)
    return 2.0 * unit(mixed) - 1.0
