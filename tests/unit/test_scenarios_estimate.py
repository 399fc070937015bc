"""Sizes are estimated before anything is made."""

from __future__ import annotations

import tracemalloc
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest

import dlrmsim
from inputs.errors import InfeasibleError
from scenarios.checking import check
from scenarios.estimate import expected_size
from scenarios.library import CATALOG
from scenarios.resolve import load_scenario
from workloads.dlrm.laws.index_files import MAX_INDICES, read_counts

LARGEST = ["world_size=262144", "workload.global_batch_size=2621440"]


@pytest.mark.parametrize(
    "name", ["criteo_small", "mlperf_dlrm_v1", "mlperf_dlrm_dcnv2", "synthetic_jumbo", "zionex_f_128"]
)
def test_the_size_before_planning_is_near_that_of_the_task_graph(name):
    expected, found = expected_size(load_scenario(name)), check(load_scenario(name)).size
    assert expected.tasks_per_iteration == pytest.approx(found.tasks_per_iteration, rel=0.25)
    assert expected.iterations == found.iterations


def test_every_shipped_scenario_has_an_expected_size():
    assert all(expected_size(load_scenario(name)).memory_bytes > 0 for name in CATALOG.names())


@pytest.mark.parametrize(
    "started",
    [
        lambda: dlrmsim.run("synthetic_tiny", settings=LARGEST),
        lambda: dlrmsim.check("synthetic_tiny", settings=LARGEST),
        lambda: dlrmsim.plan("synthetic_tiny", settings=LARGEST),
    ],
    ids=["run", "check", "plan"],
)
def test_a_job_too_large_for_the_memory_is_refused_before_its_arrays_are_made(started, monkeypatch):
    monkeypatch.setattr("scenarios.estimate.available_memory_bytes", lambda: 2e9)
    tracemalloc.start()
    try:
        with pytest.raises(InfeasibleError, match=r"it would take about [\d.]+ GiB.*262,144|rank-tasks"):
            started()
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_a_file_that_unpacks_to_half_a_billion_indices_is_refused_by_its_head(tmp_path):
    file = tmp_path / "bomb.npz"
    with ZipFile(file, "w", ZIP_DEFLATED) as archive, archive.open("t.npy", "w") as member:
        head = {"descr": "<i8", "fortran_order": False, "shape": (5 * MAX_INDICES,)}
        np.lib.format.write_array_header_1_0(member, head)
        member.write(bytes(10**6))
    with pytest.raises(InfeasibleError, match="500,000,000 indices"):
        read_counts(file, "t")


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_indices_are_counted_in_pieces_whatever_their_type(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr("workloads.dlrm.laws.index_files._PIECE", 100)
    indices = np.random.default_rng(1).integers(0, 50, 1234).astype(np.int32)
    file = tmp_path / f"t.{suffix}"
    np.save(file, indices) if suffix == "npy" else np.savez_compressed(file, t=indices)
    counts = read_counts(file, "t")
    assert sum(lookups for _, lookups in counts.bins) == 1234
    assert counts.highest == indices.max()
