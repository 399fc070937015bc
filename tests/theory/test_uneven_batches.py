"""A batch that the ranks do not divide: the largest share sets the pace, throughput counts the true batch."""

from __future__ import annotations

import pytest

from scenarios.dlrm.plans import PlanningJob, plan_of
from scenarios.mapping import one_after_the_other
from scenarios.progress import Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from scenarios.sweep import run_sweep
from scenarios.sweep_plan import plan_sweep
from tests.law_runs import summary_of_run
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.sharding import PLANNERS

RANKS, EVEN = 16, 16 * 2048
JOB = ("cluster=dgx_a100_80", f"world_size={RANKS}")


def job(batch: int, *settings: str) -> ResolvedScenario:
    return load_scenario("mlperf_dlrm_v1", [*JOB, f"workload.global_batch_size={batch}", *settings])


def seconds(batch: int, *settings: str) -> float:
    return summary_of_run(job(batch, *settings))["iteration_time_s"]


@pytest.mark.parametrize("planner", ["row_wise", "table_row_wise"])
def test_time_lies_between_those_of_the_even_batches(planner: str) -> None:
    """One sample more takes nearly as long as one more for every rank: the rank that has it keeps the others waiting.

    Between are the rows that owners look up, which are those of the true batch.
    """
    setting = f"workload.sharding.planner={planner}"
    below, uneven, above = (seconds(batch, setting) for batch in (EVEN, EVEN + 1, EVEN + RANKS))
    assert below < uneven <= above
    assert above - uneven < (above - below) / 3


def test_throughput_counts_the_true_batch() -> None:
    summary = summary_of_run(job(EVEN + 5))
    assert summary["global_batch_size"] == EVEN + 5
    assert summary["local_batch_size"] == 2049
    assert summary["throughput_samples_per_s"] * summary["iteration_time_s"] == pytest.approx(EVEN + 5)


@pytest.mark.parametrize("spread", ["null", "{distribution: geometric}"])
@pytest.mark.parametrize("planner", PLANNERS.names())
def test_every_planner_takes_an_uneven_batch(planner: str, spread: str) -> None:
    """`criteo_small` on 3 ranks, each of which has room for copies of all tables."""
    settings = [f"workload.sharding.planner={planner}", f"workload.pooling_spread={spread}", "world_size=3"]
    settings += ["workload.sharding.steps=1", "run.iterations=2"]
    planned = PlanningJob.of(load_scenario("criteo_small", ["workload.global_batch_size=1000", *settings]))
    assert planned.report(plan_of(planned)).fits


def test_passes_share_an_uneven_batch() -> None:
    """Each takes as long as the largest; the samples are those of the batch."""
    accumulated = "workload.gradient_accumulation=7"
    summary = summary_of_run(job(EVEN + 5, accumulated))
    even = 7 * RANKS * (EVEN // (7 * RANKS) + 1)
    assert summary["global_batch_size"] == EVEN + 5
    assert summary["throughput_samples_per_s"] * summary["iteration_time_s"] == pytest.approx(EVEN + 5)
    assert summary["iteration_time_s"] <= seconds(even, accumulated) * (1 + 1e-9)


def test_strong_scaling_keeps_any_batch_on_any_size() -> None:
    rows = run_sweep(
        plan_sweep("mlperf_dlrm_v1", "world_size=1,3,7,12", "strong", [*JOB, "workload.global_batch_size=10007"]),
        one_after_the_other,
    )
    assert [row["status"] for row in rows] == ["ok"] * 4
    assert [row["global_batch_size"] for row in rows] == [10007] * 4
    assert [row["local_batch_size"] for row in rows] == [10007, 3336, 1430, 834]


def test_weak_scaling_keeps_the_mean_share() -> None:
    plan = plan_sweep("mlperf_dlrm_v1", "nodes=1,2", "weak", ["workload.global_batch_size=10007", "nodes=1"])
    assert [load_scenario(point.scenario, point.settings).global_batch_size for point in plan.points] == [10007, 20014]


def test_sent_bytes_are_received_bytes() -> None:
    """Exchanges forward and backward carry the same samples, whatever the batch."""
    from scenarios.prepare import prepare

    prepared = prepare(job(EVEN + 5, "workload.sharding.planner=table_wise"), Silent())
    graph = generate(prepared.resolved.model, prepared.workload.plan, prepared.workload.settings)
    calls = {
        name: work.bytes
        for program in graph.programs
        for name, work in zip(program.names, program.work, strict=True)
        if name.startswith("column_output_dist")
    }
    forward, backward = calls["column_output_dist_forward"], calls["column_output_dist_backward"]
    ratio = prepared.workload.settings.forward_bytes / prepared.workload.settings.backward_bytes
    assert float(forward.sum()) == pytest.approx(RANKS * float(backward) * ratio)
