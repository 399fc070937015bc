"""Suite paper_claims: ratios of two scenarios, graded as bands."""

from __future__ import annotations

from pathlib import Path

import pytest

from inputs.errors import InputError
from scenarios.arrivals.jobs_file import load_jobs
from scenarios.mapping import one_after_the_other
from scenarios.progress import Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from scenarios.runner import simulation_of
from validation.suites.score import score
from validation.suites.suite import load_suite


def rate(name: str) -> float:
    resolved = load_scenario(name)
    return rate_of(resolved, resolved.global_batch_size)


def rate_of(resolved: ResolvedScenario, batch: int) -> float:
    """Throughput with a batch, which the scenario has."""
    assert resolved.global_batch_size == batch
    return batch / simulation_of(resolved, Silent()).analysis.iteration.seconds


def test_a_claim_over_another_scenario_is_the_ratio_of_both_and_a_hit_or_a_miss() -> None:
    """The ratio follows from both runs; whether it is in the band is reported, not required."""
    file, suite = load_suite("paper_claims")
    case = next(case for case in suite.cases if case.id == "mud22_speedup_vs_cpu")
    alone = suite.model_copy(update={"cases": (case,), "collective_ratios": (), "arrivals": ()})
    (row,) = score(file, alone, one_after_the_other)["cases"]
    assert row["predicted"] == pytest.approx(rate("zionex_a_128") / rate("ps_async_a"))
    assert row["hit"] is (row["measured"]["low"] <= row["predicted"] <= row["measured"]["high"])
    assert 20 < row["predicted"] < 80


def test_a_claim_about_arriving_jobs_is_a_number_of_their_advice(tmp_path: Path) -> None:
    """The runs of its jobs are predictions like all others; 100,000 iterations of one job on one of two nodes."""
    (tmp_path / "jobs.yaml").write_text(
        "cluster: dgx_a100_80\nnodes: 2\narrivals_per_hour: 30\nsimulated_jobs: 1000\n"
        "jobs: [{scenario: mlperf_dlrm_v1, iterations: 100_000, nodes: [1]}]\n"
    )
    claim = "{id: c, jobs: jobs.yaml, metric: %s, measured: {low: 0.1, high: 10}, source: s, grade: read}"
    (tmp_path / "suite.yaml").write_text(f"title: t\narrivals: [{claim % 'least_offered_utilisation'}]\n")
    (row,) = score(*load_suite(tmp_path / "suite.yaml"), one_after_the_other)["cases"]
    resolved = load_scenario("mlperf_dlrm_v1", ["cluster=dgx_a100_80", "nodes=1"])
    alone = load_scenario("mlperf_dlrm_v1", ["cluster=dgx_a100_80"]).global_batch_size
    job_s = 1e5 * alone / rate_of(resolved, alone)
    assert row["predicted"] == pytest.approx(30 / 3600 * job_s / 2)
    assert row["hit"] is (0.1 <= row["predicted"] <= 10)
    (tmp_path / "suite.yaml").write_text(f"title: t\narrivals: [{claim % 'reductoin.value'}]\n")
    with pytest.raises(InputError, match=r"no such metric; given 'reductoin\.value'"):
        score(*load_suite(tmp_path / "suite.yaml"), one_after_the_other)


def test_the_claim_of_pac_ml_names_jobs_that_ship() -> None:
    _, suite = load_suite("paper_claims")
    (claim,) = suite.arrivals
    _, jobs = load_jobs(claim.jobs)
    assert [kind.nodes for kind in jobs.jobs] == [(1, 2, 4, 8, 16)] * 5
