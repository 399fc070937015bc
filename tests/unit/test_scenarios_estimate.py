"""Sizes are estimated before anything is made."""

from __future__ import annotations

import tracemalloc
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest

import dlrmsim
from benchmarks.commands import cost_of
from inputs.errors import InfeasibleError
from scenarios.checking import check
from scenarios.estimate import PLACINGS, expected_size, run_size
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


def test_collectives_of_replicas_in_step_count_once():
    """Their groups run as one activity; else seconds of a pipeline's run would be a hundred times too long."""
    size = check(load_scenario("llama3_70b_3d_256")).size
    assert size.seconds < 60.0


@pytest.mark.parametrize("name", ["synthetic_tiny", "mlperf_dlrm_v1", "tf_resnet50", "llama3_8b_fsdp_128"])
def test_the_memory_of_a_run_is_within_a_factor_of_two(name, tmp_path):
    """Peak of a process of its own; seconds are compared by ``python -m benchmarks estimates``."""
    size = check(load_scenario(name)).size
    cost = cost_of(["run", name, "--no-levers", "--out", str(tmp_path / "run")])
    assert 0.5 <= size.memory_bytes / cost.peak_rss_bytes <= 2.0


def test_seconds_grow_with_all_that_a_run_does():
    """More ranks, more iterations and groups of ranks that exchange apart take longer, and so does placing."""
    scenario = load_scenario("zionex_a_128")
    graph = check(scenario).prepared.graph
    jitter = load_scenario("zionex_a_128", ["variation.compute_jitter=0.05"])
    larger = load_scenario("zionex_a_128", ["nodes=32", "workload.global_batch_size=131072"])
    base = run_size(scenario, graph, inputs_vary=False).seconds
    assert run_size(scenario, graph, inputs_vary=False, placing_s=1.0).seconds == pytest.approx(base + PLACINGS)
    assert run_size(jitter, graph, inputs_vary=False).seconds > base
    assert run_size(scenario, graph, inputs_vary=True).seconds > base
    assert run_size(larger, check(larger).prepared.graph, inputs_vary=False).seconds > base
