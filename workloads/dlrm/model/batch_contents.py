"""Contents of a batch: lookups of each rank's samples, drawn where bag lengths are not fixed.

The sum of many independent bag lengths is normal with their mean and variance. It is drawn for each rank's samples and
each table, keyed by the seed and the table's name (Philox), so that the plan, the number of workers and the other
tables never change it.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from simulator.operators import FloatArray
from workloads.dlrm.laws.pooling import PoolingSpread
from workloads.dlrm.model.sequence_batches import lengths_on_ranks
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.tables import Tables


def batch_lookups(tables: Tables, settings: DlrmSettings) -> FloatArray:
    """Lookups of each table by each rank's samples in one batch ``[N, P]``, ``[N, 1]`` of all when ranks are alike.

    Raises:
        InputError: a histogram of lengths has another mean than its table.
    """
    samples = settings.global_batch_size / settings.world_size
    mean = tables.lookups_per_sample * samples
    if tables.sequences:
        return _positions(tables, settings)
    if not tables.pooling:
        return np.asarray(mean * settings.world_size)[:, None]
    deviation = batch_deviation(tables, samples)
    drawn = np.stack([_normal(settings.seed, name, settings.world_size) for name in tables.names])
    return np.maximum(mean[:, None] + deviation[:, None] * drawn, 0.0)


def _positions(tables: Tables, settings: DlrmSettings) -> FloatArray:
    """Lookups of tables of sequences, see `batch_lookups`: one of each feature for each position."""
    ranks, found = settings.world_size, []
    for sequence, features in zip(tables.sequences, tables.features.tolist(), strict=True):
        if sequence is None:
            raise ValueError("pooled tables beside sequences")
        found.append(features * lengths_on_ranks(sequence, settings.dealing).positions)
    if all(len(positions) == 1 for positions in found):
        return np.stack(found) * ranks
    return np.stack([np.broadcast_to(positions, ranks) for positions in found])


def batch_deviation(tables: Tables, samples: float) -> FloatArray:
    """Standard deviation of the lookups of each table by ``samples`` samples ``[N]``; 0 where lengths are fixed."""
    if not tables.pooling:
        return np.zeros(len(tables))
    variance = [
        0.0 if spread is None else _variance(spread, mean)
        for spread, mean in zip(tables.pooling, tables.pooling_factor.tolist(), strict=True)
    ]
    return np.asarray(np.sqrt(np.array(variance) * tables.features * samples))


@lru_cache(maxsize=4096)
def _variance(spread: PoolingSpread, mean: float) -> float:
    return spread.variance(mean)


@lru_cache(maxsize=4096)
def _normal(seed: int, name: str, ranks: int) -> FloatArray:
    """Standard normal numbers of a table, one per rank ``[P]``."""
    key = hashlib.blake2b(f"{seed}/batch/{name}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little"))).standard_normal(ranks)
