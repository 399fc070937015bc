"""Runs of jobs with sequences: round trips, orders of tables, evaluation, time to a target, the summary's section."""

from __future__ import annotations

import json
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from dlrmsim.cli import main
from inputs.yaml_lines import Document
from scenarios.dlrm.sequence_sections import sequences_of
from scenarios.engine_run import iteration_s
from scenarios.prepare import prepare
from scenarios.progress import Silent
from scenarios.resolve import changed, load_scenario, resolve
from scenarios.runner import simulate
from simulator.collective_calls import CollectiveCall
from simulator.equality import same
from tests.planning_jobs import job as pooled_job
from tests.planning_jobs import scenario as pooled_scenario
from tests.sequence_jobs import BATCH, model_data, placed, scenario_data, works
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.laws.sequence_lengths import read_lengths
from workloads.dlrm.model.target import TimeToTarget

BACKWARD = ("backward", "gradient", "optimizer", "all_reduce", "_update", "zero_")
"""Parts of names of tasks after the loss."""
BY_ROWS = {"planner": "row_wise"}


def run_of(data: dict[str, Any]) -> dict[str, Any]:
    """The summary of a run."""
    return simulate(resolve(Document(data, {}, Path("test.yaml"))), Silent()).summary


def test_the_shipped_scenario_runs_again_from_what_it_resolved_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The resolved file has the same hash, and its run the same summary."""
    arguments = ["--no-report", "--no-levers"]
    assert main(["run", "mlperf_dlrm_v4_hstu", "--out", str(tmp_path / "one"), *arguments]) == 0
    resolved = tmp_path / "one" / "scenario.resolved.yaml"
    assert main(["run", str(resolved), "--out", str(tmp_path / "two"), *arguments]) == 0
    capsys.readouterr()
    one, two = (json.loads((tmp_path / name / "summary.json").read_text(encoding="utf-8")) for name in ("one", "two"))
    assert one["scenario_hash"] == two["scenario_hash"]
    assert one == two
    assert one["sequences"]["gflop_per_full_sample"]["layers"] == pytest.approx(316, rel=0.01)


@pytest.mark.parametrize("at", ["model", "scenario"])
def test_a_file_of_lengths_stands_in_the_resolved_scenario(at: str, tmp_path: Path):
    """Histogram, not the name of the file: it may be gone when the scenario runs again."""
    file = tmp_path / "lengths.csv"
    file.write_text("length,count\n3,5\n40,2\n64,1\n3,1\n", encoding="utf-8")
    law, keys = {"distribution": "file", "file": str(file)}, {}
    if at == "model":
        data = scenario_data(model_data(law))
    else:
        keys = {"sequence_lengths": {"history": law}}
        data = scenario_data(None, **keys)
    first = resolve(Document(data, {}, tmp_path / "job.yaml"))
    file.unlink()
    written = yaml.safe_load(yaml.safe_dump(first.to_dict()))
    found = written["workload"]["model"]["sequences"]["history"]["lengths"]
    law = {key: value for key, value in found["value"].items() if value is not None}
    assert law == {"distribution": "histogram", "lengths": [3, 40, 64], "weights": [6.0, 2.0, 1.0]}
    assert "lengths.csv" in found["note"]
    again = resolve(Document(written, {}, Path("test.yaml")))
    assert again.hash == first.hash
    by_hand = scenario_data(model_data(law))
    assert run_of(written)["iteration_time_s"] == run_of(by_hand)["iteration_time_s"]


def test_a_file_without_counts_counts_its_lines(tmp_path: Path):
    file = tmp_path / "lengths.csv"
    file.write_text("length\n" + "7\n" * 3 + "0\n", encoding="utf-8")
    found = read_lengths(file, 10)
    assert (found.lengths, found.weights) == ((0, 7), (1.0, 3.0))
    assert found.mean_length(10) == 21 / 4


@pytest.mark.parametrize("planner", ["greedy", "row_wise", "column_wise", "table_wise"])
def test_the_order_of_tables_changes_nothing(planner: str):
    """Histories have an MLP for the first table and one for the others, so that tables of equal width change places."""
    tables = [
        {"name": name, "rows": rows, "dim": 32, "sequence": "history"}
        for name, rows in (("item", 5000), ("artist", 200), ("album", 900))
    ]
    lengths = {"distribution": "geometric", "mean": 50.0}
    times = []
    for order in (tables, tables[::-1], [tables[1], tables[2], tables[0]]):
        job, workload = placed(model_data(lengths, tables=order), 4, sharding={"planner": planner})
        times.append(iteration_s(job.resolved, workload, job.machine))
    assert times == pytest.approx([times[0]] * 3, rel=1e-9)


def test_lengths_stay_when_another_sequence_or_the_plan_changes():
    """Draws are keyed by the sequence's name: other sequences, planners, and layouts leave them."""
    lengths = {"distribution": "geometric", "mean": 20.0}
    found = []
    for keys in ({}, {"sharding": BY_ROWS}, {"sequence_layout": "padded"}, {"mode": "eval"}):
        section = sequences_of(placed(model_data(lengths), 4, **keys)[1])
        found.append(section["positions_per_sample"])
    assert all(each == found[0] for each in found)
    without = sequences_of(placed(model_data(lengths, context=False), 4)[1])["positions_per_sample"]
    assert without["mean"] + 1 == pytest.approx(found[0]["mean"], rel=1e-12)


def tasks_of(workload: Any) -> dict[str, Any]:
    return works(workload.graph().programs[0])


def test_an_evaluation_has_no_tasks_after_the_loss():
    train, evaluate = (placed(model_data(), 4, mode=mode, sharding=BY_ROWS) for mode in ("train", "eval"))
    names = list(tasks_of(evaluate[1]))
    assert [name for name in names if any(part in name for part in BACKWARD)] == []
    assert set(names) < set(tasks_of(train[1]))
    times = [iteration_s(job.resolved, workload, job.machine) for job, workload in (train, evaluate)]
    assert times[1] < times[0]


def test_a_pooled_job_evaluates_too():
    """The same tasks up to the loss, neither gradients nor updates, less memory, in less time."""
    sharding = {"planner": "table_wise"}
    train, evaluate = (pooled_job(16, mode=mode, sharding=sharding) for mode in ("train", "eval"))
    plan = train.make("table_wise")
    graphs = [works(generate(job.resolved.model, plan, job.settings).programs[0]) for job in (train, evaluate)]
    assert [name for name in graphs[1] if any(part in name for part in BACKWARD)] == []
    assert set(graphs[1]) < set(graphs[0])
    for job, trains in ((train, True), (evaluate, False)):
        gradients = job.workload(plan).memory().tiers["hbm"]["gradients"]
        assert bool(np.any(gradients > 0)) == trains
    summaries = [
        simulate(pooled_scenario(16, mode=mode, sharding=sharding), Silent()).summary for mode in ("train", "eval")
    ]
    assert summaries[1]["iteration_time_s"] < summaries[0]["iteration_time_s"]


@pytest.mark.parametrize("pipeline", ["none", "sparse_dist", "semi_sync"])
@pytest.mark.parametrize("planner", ["row_wise", "table_wise", "data_parallel"])
def test_evaluations_run_with_each_pipeline_and_sharding(pipeline: str, planner: str):
    times = [
        run_of(scenario_data(None, 4, mode=mode, pipeline=pipeline, sharding={"planner": planner}))["iteration_time_s"]
        for mode in ("eval", "train")
    ]
    assert 0 < times[0] < times[1]


def target_of(**target: int) -> dict[str, Any]:
    return run_of(
        scenario_data(
            model_data({"distribution": "geometric", "mean": 20.0}), 4, time_to_target=target, sharding=BY_ROWS
        )
    )


def test_time_to_target_is_trainings_and_evaluations():
    """ceil(samples / batch) iterations, ceil(samples / evaluate_every) evaluations of ceil(each / batch) iterations of
    an evaluation, as a run with `mode: eval` finds it."""
    samples, evaluated, every, batch = 100_001, 5_003, 30_000, 4 * BATCH
    found = target_of(samples=samples, evaluation_samples=evaluated, evaluate_every=every)
    section = found["time_to_target"]
    data = scenario_data(model_data({"distribution": "geometric", "mean": 20.0}), 4, mode="eval", sharding=BY_ROWS)
    evaluation_s = run_of(data)["iteration_time_s"]
    assert section["iterations"] == ceil(samples / batch) == 4167
    assert section["evaluations"] == ceil(samples / every) == 4
    assert section["training_s"] == pytest.approx(4167 * found["iteration_time_s"], rel=1e-12)
    assert section["evaluation_iteration_s"] == pytest.approx(evaluation_s, rel=1e-6)
    assert section["evaluation_s"] == pytest.approx(
        ceil(evaluated / batch) * section["evaluation_iteration_s"], rel=1e-12
    )
    assert section["time_s"] == pytest.approx(section["training_s"] + 4 * section["evaluation_s"], rel=1e-12)
    assert section["time_p10_s"] <= section["time_s"] <= section["time_p90_s"]


@pytest.mark.parametrize(
    ("target", "evaluations"),
    [
        ({"samples": 1000}, 0),
        ({"samples": 1000, "evaluation_samples": 10}, 1),
        ({"samples": 1000, "evaluation_samples": 10, "evaluate_every": 1000}, 1),
        ({"samples": 1000, "evaluation_samples": 10, "evaluate_every": 999}, 2),
        ({"samples": 1000, "evaluation_samples": 10, "evaluate_every": 5000}, 1),
        ({"samples": 1000, "evaluation_samples": 10, "evaluate_every": 1}, 1000),
    ],
)
def test_numbers_of_evaluations(target: dict[str, int], evaluations: int):
    assert TimeToTarget(**target).evaluations == evaluations


def test_a_target_without_evaluations_is_training_alone():
    found = target_of(samples=240)["time_to_target"]
    assert found["evaluations"] == 0
    assert found["evaluation_s"] == 0.0
    assert found["time_s"] == found["training_s"]
    assert found["iterations"] == 240 / (4 * BATCH)


@pytest.mark.parametrize("dedup", [False, True])
@pytest.mark.parametrize("planner", ["row_wise", "column_wise", "greedy", "data_parallel"])
def test_the_section_has_the_bytes_that_are_exchanged(planner: str, dedup: bool):
    """Copied tables are looked up where they are, and rows that are asked for once come once."""
    sharding = {"planner": planner, "index_dedup": dedup}
    _, workload = placed(model_data({"distribution": "geometric", "mean": 20.0}), 4, sharding=sharding)
    sent = sum(
        float(np.broadcast_to(work.bytes, 4).sum())
        for name, work in tasks_of(workload).items()
        if isinstance(work, CollectiveCall) and "output_dist_forward" in name
    )
    assert 4 * sequences_of(workload)["received_bytes_on_ranks"]["mean"] == pytest.approx(sent, rel=1e-9)


def test_the_section_compares_batchings_as_they_would_be():
    """What one batching says of another is what that one finds of its own layers."""
    lengths = {"distribution": "lognormal", "mean": 20.0, "deviation": 1.0}
    found = {
        batching: sequences_of(placed(model_data(lengths), 4, batching=batching)[1])
        for batching in ("random", "sorted", "balanced")
    }
    for batching, section in found.items():
        each = section["largest_over_mean_by_batching"]
        assert each == found["random"]["largest_over_mean_by_batching"]
        assert section["tflop_on_ranks"]["largest_over_mean"] == pytest.approx(each[batching], rel=1e-12)
        assert section["batching"] == batching


def test_the_shipped_scenario_accepts_each_lever_of_sequences():
    """Candidates of a run resolve, and settings of the graph change it."""
    resolved = load_scenario("mlperf_dlrm_v4_hstu")
    base = prepare(resolved, Silent())
    for setting in ("workload.batching=balanced", "workload.sharding.index_dedup=true"):
        other = changed(resolved, [setting])
        assert other.hash != resolved.hash
        assert not same(prepare(other, Silent()).graph.programs[0].work, base.graph.programs[0].work)


@pytest.mark.parametrize(("layout", "mode"), [("jagged", "train"), ("padded", "train"), ("jagged", "eval")])
@pytest.mark.parametrize("planner", ["row_wise", "table_wise", "data_parallel"])
def test_ranks_without_a_position_wait_for_the_others(planner: str, layout: str, mode: str):
    """Most histories are empty, and neither candidates nor context are there: some ranks have nothing to compute, with
    several seeds all of them, and every time is still a number."""
    lengths = {"distribution": "histogram", "lengths": [0, 9], "weights": [8, 1]}
    model = model_data(lengths, targets=0, context=False)
    empty = []
    for seed in range(4):
        data = scenario_data(
            model, 4, mode=mode, sequence_layout=layout, sharding={"planner": planner}, global_batch_size=6
        )
        found = run_of({**data, "variation": {"seed": seed}})
        positions = found["sequences"]["positions_on_ranks"]
        empty.append((positions["smallest"] == 0.0, positions["largest"] == 0.0))
        assert 0.0 < found["iteration_time_s"] < 1.0
        assert np.isfinite(found["memory"]["hbm"]["max_bytes"])
    assert all(smallest for smallest, _ in empty)
    assert {largest for _, largest in empty} == {False, True}
