"""``python -m benchmarks skew``: popularity laws against draws and simulated caches, their cost, and what they do.

Errors are over seeded random laws (Zipf, 100 to 20,000 rows, exponents 0 to 1.6); the laws themselves take any size.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.rows import Row
from simulator.program import IntArray
from workloads.dlrm.laws.popularity import Popularity, zipf

CASES, LOOKUPS, BATCHES, HISTORY = 60, 40_000, 40, 1_000_000
RANKS = 128


def rows() -> Iterator[Row]:
    """Errors, times, hot blocks."""
    yield from _errors()
    yield from _times()
    yield from _hot_blocks()


def _errors() -> Iterator[Row]:
    draw = np.random.default_rng(0)
    off: dict[str, list[float]] = {"lru_hit_rate": [], "distinct": [], "fetched": [], "block_share": []}
    for _ in range(CASES):
        rows_of_table, exponent = round(10 ** draw.uniform(2, 4.3)), draw.uniform(0, 1.6)
        law = zipf(rows_of_table, exponent)
        drawn = law.ranks(draw.random(LOOKUPS))
        capacity = max(2, round(rows_of_table * draw.uniform(0.02, 0.8)))
        hits, _ = _simulated(drawn, capacity, OrderedDict())
        _, fetched = _simulated(drawn, capacity, _warm(law.ranks(draw.random(HISTORY)), capacity))
        off["lru_hit_rate"].append(abs(100.0 * (float(law.hit_rate(capacity, LOOKUPS)) - hits)))
        off["distinct"].append(abs(100.0 * (float(law.distinct(LOOKUPS)) / len(np.unique(drawn)) - 1.0)))
        batch = LOOKUPS // BATCHES
        off["fetched"].append(100.0 * abs(float(law.fetched(capacity, batch)) - fetched) / float(law.distinct(batch)))
        edges = np.linspace(0, rows_of_table, 9).astype(np.int64)
        counted = np.histogram(law.positions(drawn), edges)[0] / LOOKUPS
        off["block_share"].append(float(100.0 * np.abs(law.block_shares(edges) - counted).max()))
    units = {"lru_hit_rate": "% of lookups", "distinct": "% of rows", "fetched": "% of rows", "block_share": "% of all"}
    for name, errors in off.items():
        yield Row(f"{name}_mean_error", float(np.mean(errors)), units[name])
        yield Row(f"{name}_worst_error", float(np.max(errors)), units[name])


def _warm(history: IntArray, capacity: int) -> OrderedDict[int, None]:
    """An LRU cache after a history: the last rows of it, the latest one last."""
    rows, last = np.unique(history[::-1], return_index=True)
    return OrderedDict.fromkeys(rows[np.argsort(last)][:capacity][::-1].tolist())


def _simulated(drawn: IntArray, capacity: int, held: OrderedDict[int, None]) -> tuple[float, float]:
    """Share of hits of an LRU cache that holds some rows, and rows that a batch fetches in the mean."""
    hits, fetched = 0, []
    for batch in drawn.reshape(BATCHES, -1).tolist():
        fetched.append(len(set(batch) - held.keys()))
        for row in batch:
            hits += row in held
            held[row] = None
            held.move_to_end(row)
            if len(held) > capacity:
                held.popitem(last=False)
    return hits / len(drawn), float(np.mean(fetched))


def _times() -> Iterator[Row]:
    law = zipf(10**9, 1.05)
    edges = np.linspace(0, 10**9, 4097).astype(np.int64)
    calls: dict[str, Callable[[Popularity], object]] = {
        "make": lambda _: zipf(10**9, 1.05),
        "distinct": lambda law: law.distinct(1e6),
        "hit_rate": lambda law: law.hit_rate(1e7),
        "block_shares_4096": lambda law: law.block_shares(edges),
    }
    for name, call in calls.items():
        call(law)
        start = time.perf_counter()
        for _ in range(50):
            call(law)
        yield Row(f"{name}_of_1e9_rows", (time.perf_counter() - start) / 50 * 1e6, "us")


def _hot_blocks() -> Iterator[Row]:
    """Lookups of the busiest of 128 ranks over the mean, of a row_wise table of 40 million rows."""
    size = 40_000_000
    edges = np.linspace(0, size, RANKS + 1).astype(np.int64)
    for exponent in (0.6, 0.8, 1.0, 1.2):
        hashed, ordered = (zipf(size, exponent, order).block_shares(edges) for order in ("hashed", "popularity"))
        yield Row(f"zipf_{exponent}_hashed_busiest_of_128", float(hashed.max() * RANKS), "x mean")
        yield Row(f"zipf_{exponent}_ordered_busiest_of_128", float(ordered.max() * RANKS), "x mean")
