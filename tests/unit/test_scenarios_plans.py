"""What planners are told of a job, and what says how fast their plans are."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from scenarios.dlrm.plan_study import imbalance, study_plan
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulate
from tests.planning_jobs import job, scenario
from workloads.dlrm.sharding import rank_loads_s


@pytest.mark.parametrize("planner", ["table_wise", "grid_shard", "data_parallel"])
@pytest.mark.parametrize("pipeline", ["none", "sparse_dist"])
def test_planners_are_told_the_time_of_a_run(planner: str, pipeline: str) -> None:
    planned = job(pipeline=pipeline)
    outcome = simulate(scenario(pipeline=pipeline, sharding={"planner": planner}), Silent())
    assert planned.simulate_s(planned.make(planner)) == outcome.summary["iteration_time_s"]


def test_a_run_that_is_too_slow_is_given_up() -> None:
    """At most the limit and 1 %: infinite beyond, the same time within."""
    planned = job()
    plan = planned.make("greedy")
    seconds = planned.simulate_s(plan)
    assert job().simulate_s(plan, 0.98 * seconds) == inf
    assert planned.simulate_s(plan, seconds) == seconds


def test_a_plan_that_does_not_fit_takes_for_ever() -> None:
    """96 GB of copies on GPUs of 80 GB."""
    from scenarios.dlrm.plans import PlanningJob
    from workloads.dlrm.sharding.options import COPIED
    from workloads.dlrm.sharding.plan import checked, make_plan

    planned = PlanningJob.of(load_scenario("mlperf_dlrm_v1"))
    copies = make_plan(planned.tables, 8, 8, "copies", data_parallel=np.arange(26))
    assert COPIED.kind in checked(copies).sharding_types
    assert planned.simulate_s(copies) == inf


def test_rates_of_a_machine_order_as_its_links_do() -> None:
    """Inside a node NVLink carries a reduce_scatter; across nodes the network card an all_to_all."""
    seconds = job().context.costs.machine.collective_s  # type: ignore[attr-defined]
    assert seconds("reduce_scatter", "node", 64e6) < seconds("all_to_all", "cross_node", 64e6) / 5
    alone = job(8).context.costs.machine.collective_s  # type: ignore[attr-defined]
    assert alone("all_to_all", "cross_node", 64e6) == 0.0


def test_loads_add_up_over_ranks_and_types() -> None:
    """Whole tables: the loads of all ranks are the costs of all tables; by rows every rank has the same."""
    planned = job()
    costs = planned.context.costs
    whole = rank_loads_s(planned.make("table_wise"), costs)
    everything = np.arange(len(planned.tables))
    assert whole.sum(axis=0) == pytest.approx(costs.column_shard_s(everything, planned.tables.dim).sum(axis=0))
    by_rows = rank_loads_s(planned.make("row_wise"), costs)
    assert by_rows == pytest.approx(np.tile(costs.row_wise_s().sum(axis=0), (16, 1)))
    lookups = rank_loads_s(planned.make("table_row_wise"), costs)[:, 0]
    assert lookups.reshape(2, 8).std(axis=1) == pytest.approx(0), "the ranks of a node share alike"


def test_search_with_rows_that_must_shrink_settles_on_one_factor() -> None:
    """fp32 tables of MLPerf on two GPUs: the search looks for the factor without simulating, then searches with it."""
    sets = ["cluster=dgx_a100_40", "world_size=2", "workload.global_batch_size=4096", "precision.tables=fp32"]
    sets += ["workload.rows_scaling=fit", "workload.sharding={planner: search, steps: 2}"]
    study = study_plan(load_scenario("mlperf_dlrm_v1", sets), Silent())
    assert 0.7 < study.plan.rows_scale < 0.8
    assert study.statistics.hbm_bytes.max() <= study.capacity_bytes["hbm"]
    assert study.plan.planner == "search"


def test_imbalance_by_hand() -> None:
    """Shares 1/2, 1/4, 1/4, 0 of four ranks: max / mean 2; |p - 1/4| sums to 1/2, half of it 1/4;
    KL = 1/2 ln 2 + 2 x 1/4 ln 1 = 0.3466."""
    told = imbalance(np.array([2.0, 1.0, 1.0, 0.0]))
    assert told == pytest.approx({"max_over_mean": 2.0, "total_variation": 0.25, "kl_divergence": 0.5 * np.log(2)})
    assert imbalance(np.full(5, 3.0)) == pytest.approx(
        {"max_over_mean": 1.0, "total_variation": 0.0, "kl_divergence": 0.0}
    )
    assert imbalance(np.zeros(3))["max_over_mean"] == 1.0


def test_quantised_exchanges_of_ranks_that_are_alike() -> None:
    """Equal tables, one on each rank, in fp8: every rank sends as much, which is one number, not one for each."""
    from pathlib import Path

    from inputs.yaml_lines import Document
    from scenarios.dlrm.plans import PlanningJob
    from scenarios.resolve import resolve
    from tests.planning_jobs import made_up, scenario_data

    data = scenario_data(8, sharding={"planner": "table_wise"})
    data["workload"]["model"]["tables"] = made_up([{"rows": 1000, "dim": 64, "pooling_factor": 2, "count": 8}])
    data["precision"] = {"forward_all_to_all": "fp8", "backward_all_to_all": "fp8"}
    planned = PlanningJob.of(resolve(Document(data, {}, Path("test.yaml"))))
    assert planned.simulate_s(planned.make("table_wise")) > 0
