"""Sweeps over several keys: combinations, series, refusals, and lines that equal sweeps of their own."""

from __future__ import annotations

from itertools import product

import pytest

from inputs.errors import InputError
from scenarios.mapping import one_after_the_other
from scenarios.resolve import load_scenario
from scenarios.sweep import run_sweep
from scenarios.sweep_axes import MAX_POINTS, parse_grid
from scenarios.sweep_plan import plan_sweep
from scenarios.sweep_series import MAX_VALUES, continued

SMALL = ("cluster=dgx_a100_80", "workload.global_batch_size=65536", "nodes=1")
PLANNERS = ("greedy", "row_wise")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2,4,...,64", "1,2,4,8,16,32,64"),
        ("8,16,...,64", "8,16,32,64"),
        ("8,16,...,48", "8,16,24,32,40,48"),
        ("8,16,24,...,64", "8,16,24,32,40,48,56,64"),
        ("1,2,...,5", "1,2,3,4,5"),
        ("1,10,100,...,10000", "1,10,100,1000,10000"),
        ("4,6,9,...,20.25", "4,6,9,13.5,20.25"),
        ("0.1,0.2,0.3,...,0.6", "0.1,0.2,0.3,0.4,0.5,0.6"),
        ("0,5,...,15", "0,5,10,15"),
        ("32,16,...,4", "32,16,8,4"),
        ("100 GB/s,200 GB/s,...,800 GB/s", "100 GB/s,200 GB/s,400 GB/s,800 GB/s"),
        ("1,2,...,4", "1,2,4"),
        ("a,b", "a,b"),
    ],
)
def test_a_series_goes_on_by_equal_steps_or_ratios(text: str, values: str) -> None:
    assert continued(text.split(","), "k") == values.split(",")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,4,...,60", "does not reach 60; .*; expected a last value of 32 or 64"),
        ("1,2,3,...,2.5", "does not reach 2.5"),
        ("1,3,4,...,64", "neither equal steps nor equal ratios"),
        ("1,...,8", "not a series"),
        ("1,2,...", "not a series"),
        ("1,2,...,8,16", "not a series"),
        ("1,...,2,...,8", "not a series"),
        ("a,b,...,z", "not a series"),
        ("1 GB,2 GB,...,8 MB", "not a series"),
        ("1e999999999,2e999999999,...,8e999999999", "not a series"),
        ("1,1,...,1", "neither equal steps nor equal ratios"),
        (f"1,2,3,...,{MAX_VALUES * 9}", "does not reach 576"),
    ],
)
def test_a_list_that_is_no_series_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        continued(text.split(","), "k")


@pytest.mark.parametrize(
    ("over", "across", "lines"),
    [
        (["nodes=1,2"], "nodes", [""]),
        (["nodes=1,2", "workload.servers=1,2"], "nodes", ["servers=1", "servers=2"]),
        (["workload.strategy=a,b", "workload.servers=1,2"], "workload.servers", ["a", "b"]),
        (["workload.servers=1,2", "workload.strategy=a,b"], "workload.servers", ["a", "b"]),
        (["workload.strategy=a,b", "workload.model=c,d"], "workload.model", ["a", "b"]),
        (["a.x=1,2", "a.y=1,2", "a.z=k"], "a.y", ["a.x=1, k", "a.x=2, k"]),
        (["precision.dense=p,q", "precision.wire=p,r", "nodes=1"], "nodes",
         ["precision.dense=p, precision.wire=p", "precision.dense=p, r", "q, precision.wire=p", "q, r"]),
        (["workload.on=true,false", "nodes=1"], "nodes", ["on=true", "on=false"]),
        (["k=[a,b],[c]", "nodes=1"], "nodes", ["k=[a,b]", "k=[c]"]),
    ],
)  # fmt: skip
def test_the_size_else_the_last_numbers_are_the_axis_and_the_other_keys_make_lines(
    over: list[str], across: str, lines: list[str]
) -> None:
    grid = parse_grid(over)
    assert (grid.across.key, [grid.line_name(line) for line in grid.lines]) == (across, lines)


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ([], "nothing to sweep over"),
        (["nodes"], "not a key to sweep over; given 'nodes'"),
        (["=1"], "not a key to sweep over"),
        (["a..b=1"], "not a key; given 'a..b'"),
        (["nodes="], "nodes: an empty list"),
        (["a=x,,y"], "a: an empty value"),
        (["a=x,y,x"], "a: a value stands twice; given 'x'"),
        (["a=1,1.0"], "a: a value stands twice; given '1.0'"),
        (["nodes=1", "a=x", " nodes =2"], "nodes: the key is swept twice; given ' nodes =2'"),
        (["nodes=1", "world_size=2"], "two keys of the size"),
        (["nodes=4,2"], "not a list of ascending sizes"),
        (["nodes=1.5,2"], "not a list of ascending sizes"),
        ([f"a={','.join(map(str, range(MAX_VALUES + 1)))}"], "a: too many values; given 65"),
        ([f"{key}={','.join(map(str, range(33)))}" for key in "ab"], f"too many points; given 1089; .* {MAX_POINTS:,}"),
    ],
)
def test_wrong_keys_and_lists_are_refused(over: list[str], message: str) -> None:
    with pytest.raises(InputError, match=f"^--over: {message}"):
        parse_grid(over)


@pytest.mark.parametrize(
    ("scenario", "over", "message"),
    [
        ("mlperf_dlrm_v1", ["nodez=1,2"], "^--over nodez=1: nodez: unknown key; .*did you mean 'nodes'"),
        ("mlperf_dlrm_v1", ["nodes=1,2", "precision.dense=fp16,fp17"], "^--over precision.dense=fp17: "),
        ("mlperf_dlrm_v1", ["workload.fusion_bytes=1MB,2MB"], "fusion_bytes is a key of convnet workloads"),
        ("tf_resnet50", ["workload.strategy=horovod_nccl,horovod_ncl"], "^--over .*did you mean 'horovod_nccl'"),
        ("tf_resnet50", ["nodes=1,2", "workload.servers=1,2"], "servers is a key of grpc_ps strategies"),
        ("mlperf_dlrm_v1", ["cluster=dgx_a100_80,dgx_b900"], "^--over cluster=dgx_b900: cluster: "),
    ],
)
def test_a_value_that_is_wrong_by_itself_ends_the_sweep_before_it_runs(
    scenario: str, over: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        plan_sweep(scenario, over)


@pytest.mark.parametrize("setting", ["precision.dense=fp32", " precision.dense = fp16"])
def test_a_key_that_is_swept_and_set_is_refused(setting: str) -> None:
    with pytest.raises(InputError, match=r"^--set .*precision\.dense: the key is swept, too"):
        plan_sweep("mlperf_dlrm_v1", ["precision.dense=fp32,fp16", "nodes=1,2"], settings=[setting])
    plan_sweep("mlperf_dlrm_v1", "nodes=1,2", settings=["nodes=2"])


def test_scaling_without_an_effect_is_refused() -> None:
    with pytest.raises(InputError, match="--scaling: has no effect where neither nodes nor world_size is swept"):
        plan_sweep("mlperf_dlrm_v1", "precision.dense=fp16,fp32", "weak")
    with pytest.raises(InputError, match=r"--scaling: has no effect beside --over workload\.images_per_rank"):
        plan_sweep("tf_resnet50", ["workload.images_per_rank=32,64", "nodes=1,2"], "strong")


def test_a_swept_batch_is_the_batch_at_every_size() -> None:
    over = ["nodes=1,2", "workload.global_batch_size=32768,65536"]
    plan = plan_sweep("mlperf_dlrm_v1", over, settings=["cluster=dgx_a100_80"])
    batches = [[s for s in point.settings if s.startswith("workload.global")][-1] for point in plan.points]
    assert batches == [f"workload.global_batch_size={batch}" for batch in (32768, 32768, 65536, 65536)]
    assert plan.scaling is None


def test_a_part_of_a_swept_part_is_set_after_it() -> None:
    """Otherwise the cluster would take the place of its own changed part."""
    over = ["cluster.max_nodes.value=16,32", "cluster=dgx_a100_80,zionex"]
    plan = plan_sweep("mlperf_dlrm_v1", over)
    assert [point.settings for point in plan.points][1] == ("cluster=dgx_a100_80", "cluster.max_nodes.value=32")
    hashes = {load_scenario("mlperf_dlrm_v1", point.settings).hash for point in plan.points}
    assert len(hashes) == len(plan.points)


@pytest.mark.parametrize("scaling", ["weak", "strong"])
def test_a_line_equals_the_sweep_with_its_values_set(scaling: str) -> None:
    """Rows of a grid are those of single sweeps, hashes included; speedups begin at 1 in each line."""
    over = [f"workload.sharding.planner={','.join(PLANNERS)}", "world_size=4,8"]
    grid = run_sweep(plan_sweep("mlperf_dlrm_v1", over, scaling, SMALL[:2]), one_after_the_other)
    alone = []
    for planner in PLANNERS:
        settings = (*SMALL[:2], f"workload.sharding.planner={planner}")
        rows = run_sweep(plan_sweep("mlperf_dlrm_v1", over[1], scaling, settings), one_after_the_other)
        alone += [{"workload.sharding.planner": planner, **row} for row in rows]
    assert grid == alone
    assert [row["speedup"] for row in grid if row["world_size"] == 4] == [1.0, 1.0]
    rate = "throughput_samples_per_s"
    assert grid[1]["speedup"] == grid[1][rate] / grid[0][rate]
    assert grid[3]["efficiency"] == pytest.approx(grid[3][rate] / 8 / (grid[2][rate] / 4))


def test_combinations_that_do_not_go_together_are_rows_with_their_reason() -> None:
    """A key of another strategy, and more servers than nodes, which only the generator of the job refuses."""
    over = ["workload.strategy=grpc_ps,horovod_mpi", "workload.servers=1,2"]
    plan = plan_sweep("tf_resnet50", over, settings=["nodes=1"])
    assert [bool(point.refusal) for point in plan.points] == [False, False, True, True]
    rows = run_sweep(plan, one_after_the_other)
    columns = ["workload.strategy", "workload.servers", "status", "speedup"]
    assert [[row[name] for name in columns] for row in rows] == [
        ["grpc_ps", 1, "ok", 1.0],
        ["grpc_ps", 2, "refused", None],
        ["horovod_mpi", 1, "refused", None],
        ["horovod_mpi", 2, "refused", None],
    ]
    assert rows[1]["message"].startswith("--over workload.servers=2: workload.servers: more parameter servers")
    assert "servers is a key of grpc_ps strategies" in rows[2]["message"]


def test_a_sweep_in_which_nothing_is_a_job_is_an_error() -> None:
    plan = plan_sweep("tf_resnet50", "workload.servers=2,3", settings=["nodes=1", "workload.strategy=grpc_ps"])
    with pytest.raises(InputError, match="more parameter servers than nodes"):
        run_sweep(plan, one_after_the_other)


def test_every_combination_is_a_point_and_facts_name_all_of_them() -> None:
    over = ["cluster=dgx_a100_80,zionex", "precision.dense=fp16,fp32", "nodes=1,2"]
    plan = plan_sweep("mlperf_dlrm_v1", over)
    swept = [point.swept for point in plan.points]
    expected = product(("cluster=dgx_a100_80", "cluster=zionex"), ("precision.dense=fp16", "precision.dense=fp32"),
                       ("nodes=1", "nodes=2"))  # fmt: skip
    assert swept == list(expected)
    assert plan.facts["Cluster"] == ("dgx_a100_80", "zionex")
    assert len({point.question for point in plan.points}) == len(plan.points)
