"""Settings that are tried, which of them, and what is advised."""

import pytest

from scenarios.dlrm.levers import LARGE_RANKS
from scenarios.levers import LEVER_ITERATIONS, Lever, Levers
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulate


def tried(name, *settings):
    return simulate(load_scenario(name, settings), Silent(), levers=True).levers


@pytest.fixture(scope="module")
def mlperf():
    return tried("mlperf_dlrm_v1")


def settings_of(levers, kind=None):
    return {lever.setting for lever in levers.tried if kind in (None, lever.kind)}


def test_none_is_tried_unless_asked_for():
    outcome = simulate(load_scenario("mlperf_dlrm_v1"), Silent())
    assert outcome.levers is None
    assert outcome.summary["levers"] is None


def test_the_best_stands_first(mlperf):
    gains = [lever.gain for lever in mlperf.tried]
    assert gains == sorted(gains, reverse=True)


def test_what_rounds_or_lets_lookups_see_older_rows_changes_numerics(mlperf):
    numerics = settings_of(mlperf, "numerics")
    assert "workload.pipeline=semi_sync" in numerics
    assert "workload.pipeline=sparse_dist" in settings_of(mlperf, "free")
    assert all(setting.startswith(("precision.", "workload.pipeline=semi_sync")) for setting in numerics)


def test_what_the_job_has_is_not_tried():
    levers = tried("mlperf_dlrm_v1", "workload.pipeline=semi_sync", "workload.sharding.planner=table_column_wise")
    assert not [setting for setting in settings_of(levers) if setting.startswith("workload.pipeline")]
    assert "workload.sharding.planner=table_column_wise" not in settings_of(levers)
    assert "workload.sharding.planner=greedy" in settings_of(levers)


def test_narrower_types_are_tried_for_what_travels_wide():
    """Brain floats for gradients, half floats for pooled vectors; narrower ones where there are any."""
    wide = [f"precision.{key}=fp32" for key in ("forward_all_to_all", "backward_all_to_all", "all_reduce")]
    settings = settings_of(tried("mlperf_dlrm_v1", *wide), "numerics")
    assert "precision.forward_all_to_all=fp16" in settings
    assert {"precision.backward_all_to_all=bf16", "precision.all_reduce=bf16"} <= settings


def test_one_rank_has_neither_planners_nor_wires():
    levers = tried("mlperf_dlrm_v1", "world_size=1", "workload.global_batch_size=8192", "workload.rows_scaling=fit")
    assert not [s for s in settings_of(levers) if s.startswith(("precision", "workload.sharding", "workload.overlap"))]


def test_settings_with_which_the_job_does_not_fit_are_told_apart(mlperf):
    assert "workload.sharding.planner=data_parallel" in mlperf.infeasible
    assert not set(mlperf.infeasible) & settings_of(mlperf)


def test_where_iterations_vary_settings_are_compared_over_few():
    levers = tried("mlperf_dlrm_v1", "variation.compute_jitter=0.05", "run.iterations=30")
    assert any(f"first {LEVER_ITERATIONS} of 30" in note for note in levers.notes)
    calm = tried("mlperf_dlrm_v1", "run.iterations=30")
    assert calm.notes == ()


@pytest.mark.slow
def test_planners_of_large_runs_are_compared_with_even_loads_and_are_not_advised():
    nodes = 2 * LARGE_RANKS // 8
    levers = tried("zionex_a_128", f"nodes={nodes}", f"workload.global_batch_size={nodes * 8 * 512}")
    planners = [lever for lever in levers.tried if "planner" in lever.setting]
    assert {lever.basis for lever in planners} == {"even loads"}
    assert levers.best("free") not in planners
    assert any("evened out" in note for note in levers.notes)


def lever(setting, kind, gain, basis="run"):
    return Lever(setting, kind, 1.0 - gain, gain, basis)


@pytest.mark.parametrize(
    ("levers", "advice"),
    [
        ((), "None of the 0 settings tried saves 1 %."),
        ((lever("a=1", "free", 0.009),), "None of the 1 setting tried saves 1 %."),
        ((lever("a=1", "free", 0.12),), "Free: --set a=1 saves 12.0 %."),
        (
            (lever("b=2", "numerics", 0.2), lever("a=1", "free", 0.12)),
            "Free: --set a=1 saves 12.0 %. Changes numerics: --set b=2 saves 20.0 %.",
        ),
        ((lever("b=2", "numerics", 0.2),), "No free setting saves 1 %. Changes numerics: --set b=2 saves 20.0 %."),
        (
            (lever("c=3", "free", 0.25, "at most"), lever("a=1", "free", 0.12)),
            "Free: --set a=1 saves 12.0 %. Worth a look: --set c=3, at most 25 %.",
        ),
        (
            (lever("h=9", "hardware", 0.4, "plan kept"), lever("c=3", "free", 0.25, "even loads")),
            "Worth a look: --set c=3, 25 % if all ranks had equal loads.",
        ),
    ],
)
def test_advice_names_the_free_setting_and_beside_it_the_one_that_changes_numerics(levers, advice):
    assert Levers(levers).advice == advice


SERVERS = (
    "workload.model=cpu_dlrm_small",
    "nodes=8",
    "workload.sparse_servers=4",
    "workload.dense_servers=1",
    "workload.readers=1",
)
WORSE = [
    ("tf_alexnet", ("nodes=2", "workload.strategy=grpc_ps"), "workload.strategy=horovod_nccl"),
    ("cpu_dlrm_small", ("world_size=2", "workload.embedding_update=reference"), "workload.embedding_update=race_free"),
    ("cpu_dlrm_small", ("world_size=4", "workload.exchange=scatter_list"), "workload.exchange=all_to_all"),
    ("cpu_dlrm_small", ("world_size=4", "network.backend=mpi"), "network.backend=ccl"),
    ("cpu_dlrm_small", ("world_size=2", "network.communication_cores=8"), "network.communication_cores=1"),
    ("ps_async_a", (*SERVERS, "workload.threads=10"), "workload.threads=40"),
    ("ps_async_a", SERVERS, "workload.sparse_servers=2"),
]
"""Scenarios with a setting that costs time, and the lever that takes it back."""


@pytest.mark.parametrize(("name", "settings", "lever"), WORSE)
def test_a_lever_saves_what_the_scenario_saves_with_that_setting(name, settings, lever):
    """The time of a sample with the setting added, placed anew; that of a plan kept is near it."""
    worse = load_scenario(name, settings)
    found = next(each for each in tried(name, *settings).tried if each.setting == lever)
    per_sample = [
        outcome.summary["iteration_time_s"] / outcome.summary["global_batch_size"]
        for outcome in (simulate(worse, Silent()), simulate(load_scenario(name, (*settings, lever)), Silent()))
    ]
    saved = 1.0 - per_sample[1] / per_sample[0]
    assert found.gain == pytest.approx(saved, abs=0.01)
    assert found.kind == ("numerics" if ".threads" in lever or "_servers" in lever else "free")
