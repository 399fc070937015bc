"""The search for strategies: its best equals brute force, its bounds hold, its plan runs, wrong input is refused."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import numpy as np
import pytest

import dlrmsim
from dlrmsim.cli import main
from inputs.errors import InfeasibleError, InputError
from inputs.yaml_lines import Document
from scenarios.dlrm.strategies import DlrmStrategies
from scenarios.machine import machine_of
from scenarios.progress import Silent
from scenarios.resolve import changed, load_scenario, resolve
from scenarios.resolved import ResolvedScenario
from scenarios.runner import simulation_of
from scenarios.strategies import StrategySearch, StrategySpace
from scenarios.transformer.search import division_search
from scenarios.transformer.strategies import TransformerStrategies
from tests.strategy_jobs import NODE_RANKS, job_data, levels, resolved_job
from workloads.graph.levels import LEVEL_STRATEGIES

ROUNDED = 1e-6
"""Fraction by which links that several activities share, at speeds in integers, may move a time."""


def brute_force(space: StrategySpace) -> list[tuple[float, float]]:
    """Bound and time of every choice that fits."""
    found = [space.looked_at(choice) for choice in space.choices()]
    return [(one.least_time_s, space.results(one, inf)["iteration_time_s"]) for one in found if one.fits]


def taken_s(resolved: ResolvedScenario) -> float:
    return simulation_of(resolved, Silent()).analysis.iteration.seconds


@pytest.mark.parametrize(
    "resolved",
    [resolved_job(nodes=1), load_scenario("gpt2_8", ["workload.sequences=64"])],
    ids=["dlrm", "transformer"],
)
def test_the_best_is_that_of_brute_force(resolved: ResolvedScenario) -> None:
    space_of = DlrmStrategies if resolved.kind == "dlrm" else TransformerStrategies
    pairs = brute_force(space_of(resolved))
    study = StrategySearch(resolved, space_of(resolved), Silent(), compare=False).study("units")
    assert study.left == 0
    assert study.best.iteration_time_s == min(taken_s for _, taken_s in pairs)
    assert study.count == len(pairs) + len(study.refused)
    assert all(least_s <= taken_s * (1 + ROUNDED) for least_s, taken_s in pairs)
    assert simulation_of(study.resolved, Silent()).analysis.iteration.seconds == study.best.iteration_time_s


HYBRID = "workload.parallel={tensor: 2, sharding: hybrid, shard_size: 2}"


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("gpt2_8", ["workload.sequences=32", HYBRID]),  # the scenario's own is beside the space
        ("gpt2_8", ["workload.sequences=64", "cluster.node.gpu.memory_bytes=6 GB"]),
        ("nvidia_dlrm", ["workload.global_batch_size=8192", "workload.sharding.planner=greedy"]),
        ("cpu_dlrm_small", []),
        ("mlperf_dlrm_dcnv2", ["world_size=2", "workload.global_batch_size=8192", "workload.rows_scaling=fit"]),
    ],
)
def test_each_candidate_is_simulated_refused_bounded_or_left_and_own_runs(name: str, settings: list[str]) -> None:
    resolved = load_scenario(name, settings)
    study = dlrmsim.plan(name, search="strategies", settings=settings, out=None).study
    found = study.to_dict()
    search = found["search"]
    assert search["strategies"] == sum(search[key] for key in ("simulated", "refused", "cannot_be_faster", "left"))
    assert len(found["bounded"]) == search["cannot_be_faster"] + search["left"]
    rows = [tuple(row["strategies"].values()) for key in ("compared", "bounded", "refused") for row in found[key]]
    assert len(set(rows)) == len(rows) == search["strategies"]
    try:
        taken_s = simulation_of(resolved, Silent()).analysis.iteration.seconds
    except InfeasibleError:
        taken_s = None
    assert (study.own.iteration_time_s if study.own else None) == taken_s
    behind = [one for one in study.simulated if not one.own and one is not study.best]
    assert all(one.least_time_s < study.own.iteration_time_s for one in behind if study.own)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("mlperf_dlrm_v1", ["world_size=1", "workload.global_batch_size=2048", "workload.rows_scaling=fit"]),
        ("gpt2_8", ["workload.sequences=64"]),
    ],
)
def test_there_is_no_bound_where_iterations_vary(name: str, settings: list[str]) -> None:
    resolved = load_scenario(name, [*settings, "variation.compute_jitter=0.5"])
    space_of = DlrmStrategies if resolved.kind == "dlrm" else TransformerStrategies
    space = space_of(resolved)
    assert space.least_s(next(iter(space.choices()))) == 0.0
    if resolved.kind == "transformer":
        search = division_search(resolved)
        assert search.space.least_s(search.own) == 0.0


@pytest.mark.parametrize("placement", ["round_robin", "random"])
def test_strategies_within_a_node_need_ranks_in_blocks(placement: str) -> None:
    """Groups of a node are consecutive ranks; what is alike on both levels has a place everywhere."""
    inside = {"bottom": levels("ddp", "ddp"), "top": levels("tensor", "ddp")}
    with pytest.raises(InputError, match="consecutive ranks") as raised:
        resolve(Document({**job_data(dense=inside), "placement": placement}, {}, Path("test.yaml")))
    assert raised.value.key == "placement"
    alike = {"bottom": levels("fsdp", "fsdp"), "top": levels("ddp", "ddp")}
    for nodes, dense in ((2, alike), (1, inside)):
        resolve(Document({**job_data(nodes, dense=dense), "placement": placement}, {}, Path("test.yaml")))


def test_both_levels_have_all_strategies_once() -> None:
    space = DlrmStrategies(resolved_job())
    words = [tuple(space.words(choice).values()) for choice in space.choices()]
    assert len(set(words)) == len(words)
    dense = {classes for _, *classes in map(list, words) for classes in [tuple(classes)]}
    impossible = {tuple(found.strategies.values())[1:] for found in space.impossible}
    assert len(dense | impossible) == len(LEVEL_STRATEGIES) ** 4
    assert not dense & impossible


@pytest.mark.parametrize("node", LEVEL_STRATEGIES)
@pytest.mark.parametrize("between", LEVEL_STRATEGIES)
def test_groups_of_a_transformer_are_at_the_levels_of_their_strategies(node: str, between: str) -> None:
    """Ranks of a group are in one node, on one place of all nodes, or everywhere."""
    space = TransformerStrategies(load_scenario("llama3_8b_fsdp_128", ["nodes=4", "workload.sequences=64"]))
    same = (
        choice
        for choice in space.choices()
        if choice.layers is not None and (choice.layers.node, choice.layers.between) == (node, between)
    )
    choice = next(same, None)
    if choice is None:  # 32 ranks do not divide 8 heads of keys
        assert (node, between) == ("tensor", "tensor")
        assert [found.strategies["layers"] for found in space.impossible] == ["(TP)"]
        return
    resolved = space.scenario(space.looked_at(choice))
    node_of = machine_of(resolved).topology.node_of
    groups = choice.settings.sizes.communicators()
    named = {"tensor": "tensor", "fsdp": "shard" if "shard" in groups else "data"}
    for strategy, name in named.items():
        chosen = (node == strategy, between == strategy)
        if not any(chosen) or name not in groups:
            continue
        first = node_of[groups[name] == groups[name][0]]
        spans = (len(np.unique(first)) < len(first), len(np.unique(first)) > 1)
        assert spans == chosen, (strategy, first.tolist())


def test_the_written_plan_runs_as_the_search_says(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(json.dumps(job_data(nodes=1)), encoding="utf-8")
    done = dlrmsim.plan(job, search="strategies", out=tmp_path / "plan")
    found = json.loads((tmp_path / "plan" / "statistics.json").read_text())
    run = dlrmsim.run(tmp_path / "plan" / "plan.json", out=tmp_path / "run", levers=False)
    assert run.iteration_time_s == found["iteration_time_s"] == done.study.to_dict()["compared"][0]["iteration_time_s"]
    page = (tmp_path / "plan" / "plan.html").read_text(encoding="utf-8")
    assert "Strategies that fit" in page


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"decompose": {"tasks": "gradient_all_reduce_*", "into": "halves"}}, True),
        ({"shard": {"tasks": "top_0_*", "over": "world"}}, False),
    ],
)
def test_candidates_run_with_the_changes_of_the_task_graph(change: dict, refused: bool, tmp_path: Path) -> None:
    """A change that fits no task of a candidate refuses it; others have bound and time of the changed job."""
    job = tmp_path / "job.yaml"
    job.write_text(json.dumps({**job_data(nodes=1), "transform": [change]}), encoding="utf-8")
    done = dlrmsim.plan(job, search="strategies", out=tmp_path / "plan").study
    plain, own = changed(done.resolved, ["transform=null"]), load_scenario(str(job))
    assert done.best.iteration_time_s == taken_s(load_scenario(str(tmp_path / "plan" / "plan.json"))) != taken_s(plain)
    assert done.own.iteration_time_s == taken_s(own)
    assert all(one.least_time_s <= (one.iteration_time_s or inf) * (1 + ROUNDED) for one in done.simulated)
    assert any("transform[0].decompose.tasks: no task matches" in found.why for found in done.refused) == refused


def test_a_change_that_fits_no_candidate_is_refused_with_its_key(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(json.dumps({**job_data(nodes=1), "transform": [{"fuse": "nothing_*"}]}), encoding="utf-8")
    with pytest.raises(InputError, match="no task matches") as raised:
        dlrmsim.plan(job, search="strategies", out=None)
    assert raised.value.key == "transform[0].fuse.tasks"


def refused(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert main(list(command)) == 2
    return " ".join(capsys.readouterr().err.split())


def test_wrong_input_is_refused_with_its_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(json.dumps(job_data()), encoding="utf-8")
    said = refused(capsys, "plan", str(job), "--search", "strategy")
    assert "--search" in said
    assert "did you mean 'strategies'?" in said
    said = refused(capsys, "plan", "tf_resnet50", "--search", "strategies")
    assert "workload.kind" in said
    said = refused(capsys, "run", str(job), "--check", "--set", "workload.dense.top.node=zero")
    assert "workload.dense.top.node" in said
    said = refused(capsys, "run", "cpu_dlrm_small", "--check", "--set", "workload.dense.top.node=fsdp")
    assert "workload.dense" in said
    assert "GPUs" in said


def test_a_tensor_group_that_does_not_divide_a_width_is_refused_with_the_key() -> None:
    everywhere = {"bottom": levels("ddp", "ddp"), "top": levels("tensor", "tensor")}
    job = resolved_job(nodes=4, dense=everywhere)
    with pytest.raises(InputError, match="16 ranks does not divide a layer's width of 8") as raised:
        simulation_of(job, Silent())
    assert raised.value.key == "workload.dense.top"
    assert raised.value.expected is not None
    assert str(2 * NODE_RANKS) in raised.value.expected
