"""Fits of a host: planted costs, caches and constants of collectives come back."""

import numpy as np
import pytest

from hardware_specs.cpu_kernels import AMOUNTS
from simulator.compute.cpu_amounts import Caches
from simulator.operators import CpuTraffic, EmbeddingLookup, HostWork, Misses
from validation.host.calibrate import _usual_costs, rank_counts
from validation.host.collective_costs import (
    CollectiveWork,
    _collective,
    issue_byte_s,
    measured_collectives,
    thread_costs,
)
from validation.host.iteration_parts import PartRow
from validation.host.kernel_costs import with_effective_cache
from validation.host.machine import HostFacts
from validation.host.usual_times import central_half, counted, part_of_iteration, slowness, weighted_median

MIB = 2.0**20
FACTS = HostFacts("here", "a CPU", "intel", 2, 2e9, 2 * MIB, 64 * MIB, 1e10, 16, "a test")


def lookup(random):
    """Rows of 256 B of which caches of 0 to 64 MiB serve more and more."""
    sizes = np.array([0.0, *(MIB * 2.0 ** np.arange(7))])
    lookups = float(random.integers(10_000, 1_000_000))
    held = np.sort(random.uniform(0.0, 1.0, len(sizes)))
    shares = 1.0 - held + held[0]
    return EmbeddingLookup(
        lookups, 256.0 * lookups, 0.0, 0.0, 1.0, cpu=CpuTraffic(Misses(sizes, shares * 256.0 * lookups))
    )


def lookups(shared_cache_bytes):
    """Lookups that are launched in 10 us and miss a shared cache of this size at 100 ns each."""
    random = np.random.default_rng(0)
    parts = [PartRow("lookup", [HostWork(launches=1.0), lookup(random)], 0.0, 1e-5) for _ in range(30)]
    counts = [part.counts(Caches(FACTS.core_cache_bytes, shared_cache_bytes)) for part in parts]
    seconds = [1e-5 + 1e-8 * n["lookup", "lookup"] + 1e-7 * n["lookup", "shared_miss"] for n in counts]
    return [PartRow(part.name, part.work, s, part.floor_s) for part, s in zip(parts, seconds, strict=True)]


@pytest.mark.parametrize("planted_mib", [64, 16, 4])
def test_the_effective_cache_comes_back(planted_mib):
    found = with_effective_cache(FACTS, lookups(planted_mib * MIB))
    assert found.shared_cache_bytes == planted_mib * MIB
    assert "0.0 % with" in found.shared_cache_note


def test_the_effective_cache_holds_at_least_the_caches_of_all_cores():
    assert with_effective_cache(FACTS, lookups(1 * MIB)).shared_cache_bytes >= FACTS.cores * FACTS.core_cache_bytes


def test_without_tables_the_size_that_the_system_reports_stays():
    assert with_effective_cache(FACTS, []) == FACTS


@pytest.mark.parametrize("threads", [1, 2])
def test_usual_costs_have_amounts_that_models_count(threads):
    known = _usual_costs(threads)
    assert set(known) == set(AMOUNTS) - {"batched"}
    for kind, costs in known.items():
        assert set(costs) <= set(AMOUNTS[kind].names())
        assert all(seconds is None or 0.0 < seconds < 1e-2 for seconds in costs.values())


def test_usual_costs_are_those_of_the_nearest_number_of_threads():
    assert _usual_costs(64) == _usual_costs(2) != _usual_costs(1)


def test_issuing_costs_per_byte_come_from_large_collectives_that_copy():
    """0.2 ns per byte; small collectives, other operations and ranks that share cores do not count."""
    common = {"ranks": 2, "alone": True, "times_s": [1.0]}
    rows = [
        {"kind": "all_to_all", "bytes": 256, "issue_s": [5e-5], **common},
        {"kind": "reduce_scatter", "bytes": 2**22, "issue_s": [5e-5 + 2e-10 * 2**22, 1.0], **common},
        {"kind": "reduce_scatter", "bytes": 2**24, "issue_s": [5e-5 + 2e-10 * 2**24], **common},
        {"kind": "reduce_scatter", "bytes": 2**24, "issue_s": [1.0], **common, "ranks": 4, "alone": False},
        {"kind": "all_reduce", "bytes": 2**24, "issue_s": [1.0], **common},
    ]
    assert issue_byte_s(rows) == pytest.approx(2e-10)
    assert issue_byte_s(rows[:1]) == 0.0
    left = [of.time_s for of in measured_collectives(rows, rows[2:3])]
    assert left == pytest.approx([1.0 - 5e-5 - 2e-10 * 2**24])


@pytest.mark.parametrize(
    ("times_s", "issue_s", "left_s"),
    [
        ([8e-5, 9e-5], [3e-5, 5e-5], 4e-5),  # each round less its own issuing time; the lower of two rounds
        ([5e-3], [9e-4], 5e-3 - 1e-4),  # data of a large one move within the call: at most the usual issuing time
        ([1e-4], [1e-4], 1e-5),  # done when issued: a tenth is left
    ],
)
def test_issuing_is_no_part_of_a_collective_timed_alone(times_s, issue_s, left_s):
    row = {"kind": "all_to_all", "ranks": 2, "bytes": 256, "times_s": times_s, "issue_s": issue_s}
    assert _collective(row, 1e-4).time_s == pytest.approx(left_s)


def test_costs_of_collective_threads_come_back():
    """2 ms for each of 1 to 4 collectives, and 1.5 s for each second in which data move."""
    numbers = [(1 + i % 4, 1e-3 * i) for i in range(12)]
    jobs = [CollectiveWork(moving_s, 2e-3 * calls + 1.5 * moving_s, calls) for calls, moving_s in numbers]
    assert thread_costs(jobs) == (pytest.approx(2e-3, rel=0.01), pytest.approx(1.5, rel=0.01))


def test_kernels_are_fitted_for_one_rank_on_all_cores_and_one_rank_on_each():
    assert rank_counts(2) == {2: 1, 1: 2}
    assert rank_counts(1) == {1: 1}


def test_slowness_is_the_ratio_of_yardsticks_or_one():
    assert slowness(1.5, 1.0) == 1.5
    assert slowness(None, 1.0) == slowness(1.5, None) == 1.0


def test_the_slowest_tenth_enters_no_mean():
    seconds = np.array([1.0] * 18 + [9.0, 10.0])
    assert counted(seconds).tolist() == [*range(18)]
    assert part_of_iteration(seconds - 0.5, seconds) == pytest.approx(0.5)


def test_the_central_half_is_nearest_to_the_median():
    assert central_half(np.array([9.0, 1.0, 2.0, 3.0])).tolist() == [2, 3]


def test_the_weighted_median_reaches_half_of_the_weight():
    assert weighted_median(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 5.0])) == 2.0
