"""Sweeps: which sizes, what is kept, what does not fit, and that results do not depend on who computes them."""

from __future__ import annotations

import pytest

from inputs.errors import InputError
from scenarios.mapping import one_after_the_other
from scenarios.sweep import run_sweep
from scenarios.sweep_plan import plan_sweep

SMALL = ("cluster=dgx_a100_80", "workload.global_batch_size=65536", "nodes=1")


@pytest.mark.parametrize(
    ("over", "sizes"),
    [
        ("nodes=1,2,4,...,32", [1, 2, 4, 8, 16, 32]),
        ("nodes=2,4,6,...,12", [2, 4, 6, 8, 10, 12]),
        ("nodes=3,9,...,81", [3, 9, 27, 81]),
        ("world_size=4", [4]),
    ],
)
def test_an_ellipsis_goes_on_as_the_sizes_before_it(over: str, sizes: list[int]) -> None:
    plan = plan_sweep("mlperf_dlrm_v1", over, "weak")
    assert [int(value) for value in plan.grid.across.values] == sizes


@pytest.mark.parametrize(
    "over",
    ["nodes=", "nodes=4,2", "nodes=1,...,8", "nodes=1,2,...,7,9", "batch=1,2", "nodes=0,1", "nodes=1,2,...", "1,2"],
)
def test_what_is_no_list_of_sizes_is_refused(over: str) -> None:
    with pytest.raises(InputError, match="--over"):
        plan_sweep("mlperf_dlrm_v1", over, "weak")


def test_weak_keeps_the_local_batch_and_strong_the_global_one() -> None:
    batches = {}
    for scaling in ("weak", "strong"):
        rows = run_sweep(plan_sweep("mlperf_dlrm_v1", "nodes=1,2", scaling, SMALL[:2]), one_after_the_other)
        batches[scaling] = [(row["local_batch_size"], row["global_batch_size"]) for row in rows]
    assert batches == {"weak": [(8192, 65536), (8192, 131072)], "strong": [(8192, 65536), (4096, 65536)]}


def test_more_ranks_than_samples_are_an_error_before_anything_runs() -> None:
    with pytest.raises(InputError, match="fewer samples than the 136 ranks"):
        plan_sweep("zionex_i_128", "nodes=1,17", "strong", ["workload.global_batch_size=130"])


def test_sizes_that_do_not_fit_are_rows_with_numbers_and_the_others_go_on() -> None:
    rows = run_sweep(plan_sweep("mlperf_dlrm_v1", "world_size=1,8", "weak", ["cluster=zionex"]), one_after_the_other)
    assert [row["status"] for row in rows] == ["infeasible", "ok"]
    assert "40.0 GB usable" in rows[0]["message"]
    assert rows[0]["iteration_time_s"] is None
    assert rows[0]["efficiency"] is None
    assert rows[1]["efficiency"] == 1.0


@pytest.mark.slow
def test_fit_makes_model_a_run_on_every_size() -> None:
    plan = plan_sweep("zionex_a_128", "nodes=1,4", "weak", ["workload.rows_scaling=fit"])
    rows = run_sweep(plan, one_after_the_other)
    assert [row["status"] for row in rows] == ["ok", "ok"]
    times = [row["iteration_time_s"] for row in rows]
    assert times == sorted(times), "a larger cluster exchanges more over slower links"
    assert all(row["hbm_bytes"] <= 40e9 for row in rows)


def test_rows_come_by_size_whatever_order_they_were_done_in() -> None:
    plan = plan_sweep("mlperf_dlrm_v1", "nodes=1,2", "weak", SMALL[:2])

    def backwards(function, points):
        for position in reversed(range(len(points))):
            yield position, function(points[position])

    assert run_sweep(plan, backwards) == run_sweep(plan, one_after_the_other)
