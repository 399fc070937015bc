"""How much of the shared cache is a machine's own; costs of another CPU."""

import numpy as np
import pytest

from hardware_specs.cpu_kernels import AMOUNTS
from simulator.compute.cpu_amounts import Caches
from simulator.operators import EmbeddingLookup, HostWork, Misses
from validation.collective_work import CollectiveWork
from validation.host_fit import (
    HostFacts,
    Trained,
    _collective,
    _collectives,
    fit_kernels,
    issue_byte_s,
    kept_of_cores,
    usual_costs,
)
from validation.host_iterations import TrainedJob
from validation.in_situ import PartRow
from validation.own_cache import with_own_cache

MIB = 2.0**20
FACTS = HostFacts("here", "a CPU", "intel", 2, 2e9, 2 * MIB, 64 * MIB, 1e10, 16, "a test")


def lookup(random):
    """Rows of 256 B of which caches of 0 to 64 MiB serve more and more."""
    sizes = np.array([0.0, *(MIB * 2.0 ** np.arange(7))])
    lookups = float(random.integers(10_000, 1_000_000))
    held = np.sort(random.uniform(0.0, 1.0, len(sizes)))
    shares = 1.0 - held + held[0]
    return EmbeddingLookup(lookups, 256.0 * lookups, 0.0, 0.0, 1.0, missed=Misses(sizes, shares * 256.0 * lookups))


def trained(own_bytes):
    """Jobs on one rank whose lookups, launched for 10 us, miss a shared cache of this size at 100 ns each."""
    random = np.random.default_rng(0)
    parts = [PartRow("lookup", [HostWork(launches=1.0), lookup(random)], 0.0, 1e-5) for _ in range(30)]
    machine = Caches(FACTS.core_cache_bytes, own_bytes)
    counted = [part.counts(machine) for part in parts]
    seconds = [1e-5 + 1e-8 * n["lookup", "lookup"] + 1e-7 * n["lookup", "shared_miss"] for n in counted]
    timed = [PartRow(part.name, part.work, s, part.floor_s) for part, s in zip(parts, seconds, strict=True)]
    return Trained([], {}, [TrainedJob(None, 1.0, 1.0, timed)])


@pytest.mark.parametrize("own_mib", [64, 16, 4])
def test_the_part_of_the_shared_cache_is_found_with_which_lookups_agree(own_mib):
    found = with_own_cache(FACTS, [], 2, trained(own_mib * MIB))
    assert found.shared_cache_bytes == own_mib * MIB
    assert "0.0 % with" in found.shared_cache_note


def test_what_the_system_tells_stays_where_nothing_went_through_tables():
    assert with_own_cache(FACTS, [], 2, Trained([], {}, [])) == FACTS


def test_what_cores_have_alone_is_the_least():
    found = with_own_cache(FACTS, [], 2, trained(1 * MIB))
    assert found.shared_cache_bytes >= FACTS.cores * FACTS.core_cache_bytes


@pytest.mark.parametrize("threads", [1, 2])
def test_usual_costs_are_of_amounts_that_models_count(threads):
    known = usual_costs(threads)
    assert set(known) == set(AMOUNTS) - {"batched"}  # another CPU says little of these
    for kind, costs in known.items():
        assert costs, kind
        assert set(costs) <= AMOUNTS[kind]
        assert all(seconds is None or 0.0 < seconds < 1e-2 for seconds in costs.values())


def test_usual_costs_are_those_of_the_nearest_number_of_threads():
    assert usual_costs(64) == usual_costs(2) != usual_costs(1)


def test_kernels_keep_what_ranks_on_a_core_kept_together():
    rows = [
        {"kind": "gemm", "times_s": [1.0]},
        {"kind": "all_reduce", "bytes": 2**14, "ranks": 2, "kept": [0.9, 0.5, 0.8]},
        {"kind": "all_to_all", "bytes": 2**14, "ranks": 4, "kept": [0.45]},
        {"kind": "all_to_all", "bytes": 2**16, "ranks": 2, "kept": [0.7]},
        {"kind": "all_to_all", "bytes": 2**18, "ranks": 2, "kept": []},
        {"kind": "all_reduce", "bytes": 2**24, "ranks": 4, "kept": [0.3]},
    ]
    assert kept_of_cores(rows, 2, large=False) == pytest.approx(0.8)
    assert kept_of_cores(rows, 2, large=True) == pytest.approx(0.6)
    assert kept_of_cores(rows[:1], 2, large=True) == 0.5, "of a record in which nobody measured it"
    assert kept_of_cores([{"bytes": 1, "ranks": 2, "kept": [1.01]}], 2, large=False) < 1.0


def test_what_a_call_copies_is_found_in_large_reduce_scatters():
    """0.2 ns a byte; small ones, other collectives and ranks that share cores do not tell."""
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
    left = [of.time_s for of in _collectives(rows, rows[2:3])]
    assert left == pytest.approx([1.0 - 5e-5 - 2e-10 * 2**24])


def test_threads_post_for_each_collective():
    """0.5 ms for each of four; no ranks were trained that take turns."""
    worked = [CollectiveWork(moving_s, 2e-3 + moving_s, calls=4) for moving_s in (0.0, 1e-3, 2e-3)]
    part = PartRow("ends", [HostWork(launches=1.0)], 1e-5, 1e-5)
    known = fit_kernels([], 1, FACTS, Trained(worked, {}, [TrainedJob(None, 1.0, 1.0, [part])]))
    assert known.posting_s == pytest.approx(5e-4, rel=0.01)
    assert known.shared_posting_s is None
    assert known.collective_latency_cores == 0.0


@pytest.mark.parametrize(
    ("times_s", "issue_s", "left_s"),
    [
        ([8e-5, 9e-5], [3e-5, 5e-5], 4e-5),  # each its own time of issuing; of two rounds the lower
        ([5e-3], [9e-4], 5e-3 - 1e-4),  # a large one moves within the call: no more than issuing takes
        ([1e-4], [1e-4], 1e-5),  # done when issued: a tenth is left
    ],
)
def test_issuing_is_no_part_of_a_collective_timed_alone(times_s, issue_s, left_s):
    row = {"kind": "all_to_all", "ranks": 2, "bytes": 256, "times_s": times_s, "issue_s": issue_s}
    assert _collective(row, 1e-4).time_s == pytest.approx(left_s)
