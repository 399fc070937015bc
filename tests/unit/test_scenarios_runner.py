"""A run from end to end, in memory: what the summary says adds up, and nothing but the scenario decides it."""

import json

import pytest

from inputs.errors import InfeasibleError, InputError
from scenarios.checking import check
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulate
from workloads.dlrm.sharding import plan_to_dict

SMALL = ("zionex_a_128", ["nodes=1", "workload.global_batch_size=512", "workload.rows_scaling=fit"])


class Stages:
    def __init__(self):
        self.seen = []

    def stage(self, description, done=None, total=None):
        self.seen.append(description)


@pytest.fixture(scope="module")
def mlperf():
    return simulate(load_scenario("mlperf_dlrm_v1"), Silent())


def test_throughput_is_the_batch_over_the_iteration_time(mlperf):
    summary = mlperf.summary
    assert summary["throughput_samples_per_s"] == pytest.approx(65536 / summary["iteration_time_s"], rel=1e-12)


def test_the_parts_of_the_breakdown_add_up_to_the_window(mlperf):
    parts = mlperf.summary["breakdown"]
    total = sum(parts[f"{name}_s"]["mean"] for name in ("compute", "exposed_comm", "exposed_copy", "idle"))
    assert total == pytest.approx(parts["window_s"], rel=1e-9)


def test_the_search_for_the_bound_of_a_host_starts_at_the_time_of_the_run():
    overrides = ["cluster=zen5_2_cores", "workload.sharding.planner=data_parallel"]
    outcome = simulate(load_scenario("criteo_small", overrides), Silent())
    assert outcome.bound.iteration_time_s == pytest.approx(outcome.summary["iteration_time_s"], rel=1e-6)


def test_the_critical_path_fills_the_window(mlperf):
    path = mlperf.summary["critical_path"]
    assert sum(path["by_category_s"].values()) == pytest.approx(path["window_s"], rel=1e-9)


def test_the_items_of_each_tier_add_up_to_its_total(mlperf):
    for tier in mlperf.summary["memory"].values():
        assert sum(item["mean_bytes"] for item in tier["items"].values()) == pytest.approx(tier["mean_bytes"])


def test_the_summary_is_plain_json(mlperf):
    assert json.loads(json.dumps(mlperf.summary, allow_nan=False)) == mlperf.summary


def test_the_same_scenario_gives_the_same_summary(mlperf):
    again = simulate(load_scenario("mlperf_dlrm_v1"), Silent())
    assert json.dumps(again.summary) == json.dumps(mlperf.summary)


def test_jitter_changes_with_its_seed_only():
    def seconds(seed):
        sets = ["variation.compute_jitter=0.1", f"variation.seed={seed}", "run.iterations=4"]
        return simulate(load_scenario("mlperf_dlrm_v1", sets), Silent()).summary["iteration_time_s"]

    assert seconds(1) == seconds(1)
    assert seconds(1) != seconds(2)


def test_jitter_makes_ranks_wait_for_each_other(mlperf):
    sets = ["variation.compute_jitter=0.1", "run.iterations=6"]
    jittered = simulate(load_scenario("mlperf_dlrm_v1", sets), Silent()).summary
    assert jittered["iteration_time_s"] > mlperf.summary["iteration_time_s"]


def test_a_fixed_number_of_iterations_is_run_and_recorded():
    sets = ["run.iterations=5", "output.record.iterations=3"]
    outcome = simulate(load_scenario("mlperf_dlrm_v1", sets), Silent())
    assert outcome.summary["iterations"] == 5
    assert [record.iteration for record in outcome.result.records] == [2, 3, 4]


def test_stages_are_told_in_order():
    stages = Stages()
    simulate(load_scenario("mlperf_dlrm_v1", ["run.iterations=3"]), stages)
    order = ["planning the sharding", "generating the task graph", "lowering", "simulating", "analysing"]
    assert [stage for stage in stages.seen if stage in order] == order


def test_a_straggler_makes_the_iteration_longer_and_is_the_slowest_rank(mlperf):
    sets = ["variation.straggler_ranks=[5]", "variation.straggler_slowdown=1.5"]
    outcome = simulate(load_scenario("mlperf_dlrm_v1", sets), Silent())
    assert outcome.summary["iteration_time_s"] > mlperf.summary["iteration_time_s"]
    assert outcome.summary["ranks"]["slowest"] == 5


def test_one_rank_communicates_nothing():
    sets = ["world_size=1", "workload.global_batch_size=8192", "workload.rows_scaling=fit"]
    assert simulate(load_scenario("mlperf_dlrm_v1", sets), Silent()).summary["exposed_comm_fraction"] == 0


def test_a_written_out_plan_gives_the_run_of_the_planner_that_made_it(mlperf, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(json.dumps(plan_to_dict(mlperf.prepared.workload.plan)))
    outcome = simulate(load_scenario("mlperf_dlrm_v1", [f"workload.sharding={{plan: '{plan}'}}"]), Silent())
    assert outcome.summary["iteration_time_s"] == mlperf.summary["iteration_time_s"]


def test_a_plan_for_another_size_is_an_error_at_the_plan(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text("{world_size: 3, plan: {}}")
    with pytest.raises(InputError, match=rf"{plan}:1: world_size: .* given 3; expected 8"):
        simulate(load_scenario("mlperf_dlrm_v1", [f"workload.sharding={{plan: '{plan}'}}"]), Silent())


@pytest.mark.parametrize(
    ("setting", "nearest"),
    [("workload.sharding.planner=greddy", "greedy"), ("network.algorithms={all_reduce: rings}", "ring")],
)
def test_an_unknown_name_that_only_a_model_knows_is_told_where_it_was_set(setting, nearest):
    with pytest.raises(InputError, match="--set") as error:
        simulate(load_scenario("mlperf_dlrm_v1", [setting]), Silent())
    assert error.value.nearest == nearest


@pytest.mark.slow
def test_rows_scaling_makes_it_fit_and_is_said():
    outcome = simulate(load_scenario(*SMALL), Silent())
    assert 0 < outcome.summary["sharding"]["rows_scale"] < 1
    assert "rows_scaling" in outcome.warnings[0]


def test_copies_that_do_not_fit_are_not_told_to_take_more_nodes():
    with pytest.raises(
        InfeasibleError, match=r"would fit: --set workload.sharding.planner=\w+ \(as do greedy"
    ) as error:
        check(load_scenario("mlperf_dlrm_v1", ["workload.sharding.planner=data_parallel"]))
    assert "nodes" not in str(error.value).splitlines()[-1]


def test_fitted_copies_fill_the_memory():
    """The planner counts gradients as the memory report does, so the fit leaves at most 2 % empty."""
    settings = ["workload.sharding.planner=data_parallel", "workload.rows_scaling=fit"]
    hbm = check(load_scenario("mlperf_dlrm_v1", settings)).to_dict()["memory"]["hbm"]
    assert 0.98 * hbm["capacity_bytes"] < hbm["max_bytes"] <= hbm["capacity_bytes"]


def test_a_batch_that_fills_a_rank_is_said_before_planning():
    with pytest.raises(InfeasibleError, match="memory beside tables fills a rank") as error:
        check(load_scenario("zionex_a_128", ["workload.global_batch_size=12800000"]))
    assert "-" not in str(error.value).splitlines()[0].split("does not fit")[1]


def test_the_estimate_counts_the_totals_of_every_iteration():
    """48 bytes per rank and iteration: 900,000 iterations on 8 ranks are 346 MB."""
    few, many = (
        check(load_scenario("mlperf_dlrm_v1", [f"run.iterations={n}"])).size.memory_bytes for n in (100, 900100)
    )
    assert many - few == 900000 * 8 * 48


def test_check_gives_the_memory_of_the_run(mlperf):
    assert check(load_scenario("mlperf_dlrm_v1")).to_dict()["memory"] == mlperf.summary["memory"]


def test_check_estimates_the_rank_tasks_of_the_run(mlperf):
    size = check(load_scenario("mlperf_dlrm_v1")).size
    program = mlperf.graph.programs[0]
    assert size.rank_tasks_per_iteration == program.task_count * 8
    assert size.iterations == pytest.approx(mlperf.summary["iterations"], abs=1)


def test_a_run_larger_than_this_machine_is_refused_with_the_estimate(monkeypatch):
    monkeypatch.setattr("scenarios.estimate.available_memory_bytes", lambda: 1e6)
    with pytest.raises(InfeasibleError, match="too large for this machine"):
        simulate(load_scenario("mlperf_dlrm_v1"), Silent())


def test_a_second_job_on_the_network_makes_iterations_longer():
    times = [
        simulate(load_scenario("mlperf_dlrm_v1", ["nodes=2", *more]), Silent()).summary["iteration_time_s"]
        for more in (("workload.framework=neo",), ("workload.framework=neo", "network.background={nic: 0.5}"))
    ]
    assert times[1] > 1.05 * times[0]


def test_bursts_of_a_second_job_slow_iterations_by_less_than_steady_traffic_of_their_share():
    """On and off for 2 ms each, many times in an iteration: between an idle network and the share all the time."""
    bursts = "network.background={nic: {share: 0.5, on: 2 ms, off: 2 ms, phase: 1 ms}}"
    idle, loaded, bursty = (
        simulate(load_scenario("mlperf_dlrm_v1", ["nodes=2", *more]), Silent()).summary["iteration_time_s"]
        for more in ((), ("network.background={nic: 0.5}",), (bursts,))
    )
    assert idle < bursty < loaded


def test_windows_last_at_least_a_period_of_the_bursts_and_a_period_that_does_not_divide_is_told():
    """Iterations of about 5 ms beside bursts every 61 ms: 4 of them see nothing of most bursts."""
    bursts = "network.background={nic: {share: 0.9, on: 20 ms, off: 41 ms}, torus: 0.1}"
    outcome = simulate(load_scenario("mlperf_dlrm_v1", ["nodes=2", "run.max_iterations=60", bursts]), Silent())
    measured = outcome.analysis.iteration
    assert measured.measured_iterations * measured.seconds > 0.061
    assert any("network.background.nic: the measured" in warning for warning in outcome.warnings)
    assert any("network.background.torus: this job uses no such links" in warning for warning in outcome.warnings)
