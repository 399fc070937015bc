"""Time of a transformer's kernels by block, and settings that may make it faster."""

from __future__ import annotations

import pytest

from scenarios.advice import advise
from scenarios.progress import Silent
from scenarios.resolve import changed, load_scenario
from scenarios.runner import simulate, simulation_of
from tests.unit.test_scenarios_transformer_plan import small


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("workload.parallel.pipeline=2", "workload.parallel.tensor=2"),
        ("workload.parallel.pipeline=4", "workload.recompute=full", "workload.compiled=false"),
        ("workload.attention=unfused", "workload.recompute=selective"),
        ("workload.recompute=operators",),
        ("workload.recompute=alternate", "workload.parallel.pipeline=2"),
        ("precision.dense=fp8", "workload.parallel.context=2"),
    ],
)
def test_blocks_add_up_to_the_kernels_of_a_rank(settings):
    resolved = small("80 GB", "workload.parallel.sharding=optimizer", *settings)
    summary = simulate(resolved, Silent()).summary
    blocks = summary["blocks"]
    whole_s = sum(block["forward_s"] + block["again_s"] + block["backward_s"] for block in blocks)
    assert whole_s == pytest.approx(summary["breakdown"]["compute_s"]["mean"], rel=1e-3)
    assert sum(block["parameters"] for block in blocks) == summary["parallelism"]["parameters"]
    repeats = resolved.scenario.workload.recompute != "none"
    assert any(block["again_s"] > 0 for block in blocks) == repeats


@pytest.mark.parametrize("name", ["bert_8", "gpt2_8", "llama3_70b_3d_256"])
def test_parameters_of_blocks_are_all_of_them(name):
    summary = simulate(load_scenario(name), Silent()).summary
    assert sum(block["parameters"] for block in summary["blocks"]) == summary["parallelism"]["parameters"]


def test_advice_names_settings_that_run_in_that_time():
    resolved = small("80 GB", "workload.recompute=full", "workload.parallel.tensor=2")
    found = advise(resolved, Silent())
    tried = {lever.setting: lever for lever in found.levers.tried if lever.basis == "run"}
    assert "workload.recompute=none" in tried
    assert "workload.parallel.sharding=optimizer" in tried
    assert "workload.parallel.tensor=1" in tried
    for setting, lever in list(tried.items())[:4]:
        time_s = simulation_of(changed(resolved, [setting]), Silent()).analysis.iteration.seconds
        assert lever.iteration_time_s == pytest.approx(time_s, rel=2e-3)
        assert lever.gain == pytest.approx(1.0 - time_s / found.bound.iteration_time_s, abs=2e-3)


def test_advice_for_a_job_without_room_is_what_fits():
    resolved = small("4 GB", "workload.parallel.sharding=none")
    found = advise(resolved, Silent())
    assert "does not fit" in found.refusal
    assert (found.levers, found.bound) == (None, None)
    rates = [remedy.throughput_per_rank for remedy in found.remedies]
    assert rates == sorted(rates, reverse=True)
    for remedy in found.remedies:
        there = changed(resolved, remedy.settings)
        time_s = simulation_of(there, Silent()).analysis.iteration.seconds
        assert remedy.iteration_time_s == time_s
        assert remedy.throughput_per_rank == pytest.approx(there.global_batch_size / time_s / there.world_size)


def test_settings_that_are_not_tried_cannot_help():
    """Candidates whose least time exceeds the run's are slower, and the search leaves them out."""
    outcome = simulate(small("80 GB"), Silent())
    found = {candidate.setting: candidate.most for candidate in outcome.prepared.job.candidates(outcome.bound)}
    slow = [setting for setting, most in found.items() if most < 0]
    assert len(slow) < len(found)
    for setting in slow:
        time_s = simulation_of(changed(small("80 GB"), [setting]), Silent()).analysis.iteration.seconds
        assert time_s > outcome.bound.iteration_time_s
