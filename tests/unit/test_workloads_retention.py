"""What caches hold of rows that come again, against counting with a cache that keeps exactly what was touched last."""

from collections import OrderedDict

import numpy as np
import pytest

from workloads.dlrm.laws.popularity import uniform
from workloads.dlrm.rows.retention import (
    CACHE_BYTES,
    LINE_BYTES,
    SMOOTHED,
    Touched,
    in_lines,
    kept_back,
    lost_within,
    reach,
)

MIB = 2.0**20


def touched(rows, lookups, row_bytes=1024.0, state_bytes=0.0, part=1.0):
    return Touched(uniform(rows), part, lookups, row_bytes, state_bytes)


class Lru:
    """A cache of blocks: whole rows of 1024 bytes, or lines."""

    def __init__(self, blocks):
        self.blocks, self.held = blocks, OrderedDict()

    def misses(self, block):
        missed = block not in self.held
        self.held[block] = None
        self.held.move_to_end(block)
        if len(self.held) > self.blocks:
            self.held.popitem(last=False)
        return missed


def counted(tables, cache_bytes, block=1024, iterations=24, warm_up=12):
    """Bytes of a lookup that an LRU cache misses, table after table in each iteration, updates of all after them."""
    random, cache = np.random.default_rng(0), Lru(cache_bytes // block)
    missed = np.zeros(len(tables))

    def misses(table, row):
        size = int(tables[table].row_bytes)
        return sum(cache.misses((table, at)) for at in range(row * size // block, ((row + 1) * size - 1) // block + 1))

    for iteration in range(iterations):
        drawn = [random.integers(table.popularity.rows, size=int(table.lookups)).tolist() for table in tables]
        for table, rows in enumerate(drawn):
            found = sum(misses(table, row) for row in rows)
            missed[table] += found * block if iteration >= warm_up else 0.0
        for table, rows in enumerate(drawn):
            for row in sorted(set(rows)):
                misses(table, row)
    return missed / [table.lookups * (iterations - warm_up) for table in tables]


@pytest.mark.parametrize(
    "tables",
    [
        [touched(2000, 3000.0)],  # all rows together twice the smallest cache, an iteration touches 3/4 of them
        [touched(500, 2000.0), touched(20000, 2000.0)],  # one that is kept and one that is not
        [touched(30000, 300.0), touched(400, 50.0)],  # iterations that touch little: caches reach back many
        [touched(3000, 9000.0), touched(3000, 9000.0)],  # rows repeated within a table
    ],
)
@pytest.mark.parametrize("mib", [1, 2, 4, 8])
def test_misses_are_those_of_a_cache_that_keeps_what_was_touched_last(tables, mib):
    size = int(np.flatnonzero(mib * MIB == CACHE_BYTES)[0])
    back = kept_back(reach(tables, 0.0))
    expected = counted(tables, mib * 2**20) / 1024.0
    found = [table.missed_bytes(back)[size] / (1024.0 * table.lookups) for table in tables]
    assert np.max(np.abs(found - expected)) < 0.17  # nearly all of it where a cache reaches back 0.5 to 1.5 iterations


@pytest.mark.parametrize("row_bytes", [16.0, 32.0, 48.0, 96.0])
def test_rows_that_share_lines_miss_them(row_bytes):
    """A table of 2 MiB, half of whose lines a cache of 1 MiB holds; an iteration touches 0.12 to 0.24 MiB of them."""
    table = touched(round(2 * MIB / row_bytes), 2000.0, row_bytes)
    back = kept_back(reach([table], 0.0))
    (expected,) = counted([table], 2**20, LINE_BYTES, iterations=36)
    assert table.missed_bytes(back)[1] / table.lookups == pytest.approx(expected, rel=0.1)
    assert table.missed_bytes(back)[0] / table.lookups == in_lines(row_bytes)


@pytest.mark.parametrize(
    ("row_bytes", "lines"), [(4, 1), (16, 1), (32, 1), (48, 1.5), (64, 1), (96, 2), (80, 2), (1024, 16)]
)
def test_lines_that_rows_lie_in(row_bytes, lines):
    """Counted over rows that follow each other from the beginning of a line."""
    begins = np.arange(64) * row_bytes
    assert np.mean((begins + row_bytes - 1) // LINE_BYTES - begins // LINE_BYTES + 1) == lines
    assert in_lines(row_bytes) == lines * LINE_BYTES


def test_no_cache_serves_nothing_and_one_that_holds_all_everything():
    tables = [touched(1000, 3000.0), touched(5000, 100.0)]
    far = reach(tables, 0.0)
    for table in tables:
        missed = table.missed_bytes(kept_back(far))
        assert missed[0] == table.lookups * 1024.0
        assert missed[-1] == pytest.approx(0.0, abs=1e-6 * missed[0])
        assert np.all(np.diff(missed) <= 1e-9 * missed[0])
    assert lost_within(far)[[0, -1]].tolist() == [1.0, 0.0]


def test_what_else_an_iteration_touches_takes_room():
    tables = [touched(20000, 3000.0)]
    alone, beside = reach(tables, 0.0), reach(tables, 4 * MIB)
    assert np.all(beside[1:] < alone[1:])
    assert reach([], 4 * MIB)[CACHE_BYTES == 64 * MIB] == pytest.approx(16.0, rel=0.05)


def test_rows_are_kept_until_the_update_where_an_iteration_touches_less_than_a_cache_holds():
    reached = np.array([0.0, SMOOTHED, 1.0, 1.0 + SMOOTHED, 7.0])
    assert lost_within(reached).tolist() == [1.0, 1.0, 0.5, 0.0, 0.0]
    assert kept_back(reached).tolist() == [0.0, 0.0, 0.5, 1.0, 6.5]


def test_a_part_of_a_table_misses_as_much_as_a_table_of_that_size():
    whole, half = touched(4000, 2000.0), touched(8000, 2000.0, part=0.5)
    back = kept_back(reach([whole], 0.0))
    assert half.missed_bytes(back) == pytest.approx(whole.missed_bytes(back), rel=1e-3, abs=1.0)


@pytest.mark.parametrize("size", [4.0, 16.0, 96.0, 256.0])
def test_an_update_fetches_lines_of_its_own_without_a_cache_and_each_line_once_with_one(size):
    """Counted over rows drawn by chance: without a cache a row's lines each time, else those that any row touches."""
    rows, lookups = 20000, 3000
    table = touched(rows, float(lookups), size)
    fetched = table.fetched_bytes(size, table.new_bytes(size, np.zeros(1)) * np.ones(len(CACHE_BYTES)))
    drawn = np.unique(np.random.default_rng(0).integers(rows, size=lookups))
    begins, ends = drawn * int(size) // LINE_BYTES, (drawn * int(size) + int(size) - 1) // LINE_BYTES
    lines = [line for low, high in zip(begins.tolist(), ends.tolist(), strict=True) for line in range(low, high + 1)]
    assert fetched[0] == pytest.approx(len(lines) * LINE_BYTES, rel=0.02)
    assert fetched[1:] == pytest.approx(len(set(lines)) * LINE_BYTES, rel=0.03)
