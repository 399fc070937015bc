"""Prices of results, and notes on settings that change the size of a job."""

from __future__ import annotations

import pytest

import dlrmsim
from inputs.errors import InputError
from scenarios.resolve import load_scenario

JOB = "mlperf_dlrm_v1"


def test_a_million_samples_cost_what_all_gpus_cost_while_they_are_trained(tmp_path):
    done = dlrmsim.run(JOB, settings=["cost.gpu_hour_usd=3.6"], report=False, out=tmp_path / "a")
    seconds = 1e6 / done.throughput_samples_per_s
    assert done.million_samples_usd == pytest.approx(8 * 3.6 / 3600 * seconds)
    assert done.summary["cost"]["job_hour_usd"] == pytest.approx(8 * 3.6)


def test_a_price_changes_nothing_but_the_cost(tmp_path):
    free = dlrmsim.run(JOB, report=False, out=tmp_path / "a")
    priced = dlrmsim.run(JOB, settings=["cost.gpu_hour_usd=3.6"], report=False, out=tmp_path / "b")
    assert free.million_samples_usd is None
    without = {key: value for key, value in priced.summary.items() if key != "cost"}
    assert {**without, "scenario_hash": ""} == {**free.summary, "scenario_hash": ""}


@pytest.mark.parametrize("price", ["0", "-1", "cheap", ".inf"])
def test_an_impossible_price_is_refused(price):
    with pytest.raises(InputError, match=r"cost\.gpu_hour_usd"):
        load_scenario(JOB, [f"cost.gpu_hour_usd={price}"])


def test_another_cluster_with_other_nodes_is_noted_with_both_sizes():
    """16 nodes of 8 become 16 trays of 4: half the GPUs, and the setting that keeps them."""
    (note,) = load_scenario("zionex_a_128", ["cluster=gb200_nvl72", "workload.rows_scaling=fit"]).notes
    assert "64 ranks on gb200_nvl72 (4 per node) instead of 128 on zionex (8 per node)" in note
    assert "--set world_size=128" in note
    kept = load_scenario("zionex_a_128", ["cluster=gb200_nvl72", "world_size=128"])
    assert (kept.world_size, kept.notes) == (128, ())


@pytest.mark.parametrize("settings", [[], ["cluster=dgx_h100"], ["cluster=gb200_nvl72", "nodes=32"], ["nodes=8"]])
def test_nothing_is_noted_where_the_size_is_as_written_or_as_before(settings):
    assert load_scenario("zionex_a_128", settings).notes == ()


def test_a_note_is_among_the_warnings_of_a_run_and_of_its_check(tmp_path):
    settings = ["cluster=gb200_nvl72"]
    (note,) = load_scenario(JOB, settings).notes
    assert note in dlrmsim.run(JOB, settings=settings, report=False, out=tmp_path / "a").warnings
    assert note in dlrmsim.check(JOB, settings=settings).warnings
