"""Kinds of workload: the file says which, its keys are those of that kind, and every command serves all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dlrmsim
from dlrmsim.catalogs import list_names
from dlrmsim.cli import main
from scenarios.family import FAMILIES
from scenarios.resolve import load_scenario
from tests.toy_family import ToyFamily

DLRM = """
name: dlrm
cluster: zionex
nodes: 1
workload:
  model: mlperf_dlrm_v1
  framework: pytorch
"""
TOY = """
name: toy
cluster: dgx_a100_80
nodes: 2
workload:
  kind: toy
  model: squares
  framework: pytorch
"""


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """A folder with a scenario of a family that a test registers."""
    FAMILIES.names()
    monkeypatch.setattr(FAMILIES, "_items", dict(FAMILIES._items))
    monkeypatch.setattr(FAMILIES, "_descriptions", dict(FAMILIES._descriptions))
    FAMILIES.add("toy", ToyFamily(), "squares, for tests")
    monkeypatch.chdir(tmp_path)
    Path("toy.yaml").write_text(TOY, encoding="utf-8")
    Path("dlrm.yaml").write_text(DLRM, encoding="utf-8")
    return tmp_path


def refused(capsys, *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 2
    return capsys.readouterr().err


def test_a_file_without_a_kind_is_a_dlrm_and_its_hash_does_not_depend_on_it(toy):
    Path("said.yaml").write_text(DLRM.replace("workload:\n", "workload:\n  kind: dlrm\n"), encoding="utf-8")
    silent, said = load_scenario("dlrm.yaml"), load_scenario("said.yaml")
    assert silent.kind == said.kind == "dlrm"
    assert silent.hash == said.hash
    assert "kind" not in silent.to_dict()["workload"]


def test_a_kind_that_does_not_exist_is_refused_with_the_nearest_one(toy, capsys):
    Path("wrong.yaml").write_text(TOY.replace("kind: toy", "kind: tooy"), encoding="utf-8")
    words = refused(capsys, "run", "wrong.yaml", "--check")
    for part in ("wrong.yaml:6", "workload.kind", "no such kind of workload", "tooy", "dlrm", "toy"):
        assert part in words


@pytest.mark.parametrize(
    ("text", "place", "key", "words"),
    [
        (TOY + "  sharding: {planner: greedy}\n", "9", "workload.sharding", "sharding is a key of dlrm workloads"),
        (
            TOY + "precision: {tables: fp16}\n",
            "9",
            "precision.tables",
            "tables is a key of dlrm, dlrm_ps and inference workloads",
        ),
        (
            TOY + "  optimizer: {tables: sgd}\n",
            "9",
            "workload.optimizer.tables",
            "tables is a key of dlrm and dlrm_ps workloads",
        ),
        (DLRM + "  images_each: 3\n", "8", "workload.images_each", "images_each is a key of toy workloads"),
    ],
)
def test_a_key_of_another_kind_names_the_kinds_that_have_it(toy, capsys, text, place, key, words):
    Path("mixed.yaml").write_text(text, encoding="utf-8")
    message = refused(capsys, "run", "mixed.yaml", "--check")
    for part in (f"mixed.yaml:{place}", key, words, "expected"):
        assert part in message
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("scenario", "model", "words"),
    [
        ("ps_async_a", "resnet50", "unknown model; resnet50 is a model of workload.kind convnet; given"),
        ("zionex_a_128", "vgg16", "unknown model; vgg16 is a model of workload.kind convnet; given"),
        (
            "tf_resnet50",
            "zionex_a",
            "no such network; zionex_a is a model of workload.kind dlrm, dlrm_ps and inference; given",
        ),
    ],
)
def test_a_model_of_another_kind_names_the_kinds_that_have_it(capsys, scenario, model, words):
    message = refused(capsys, "run", scenario, "--set", f"workload.model={model}", "--check")
    assert words in message
    assert "did you mean" not in message


def test_models_of_every_kind_are_listed():
    """Names that `list` prints load as models of the kind in their description."""
    assert "workload.kind convnet" in list_names("architectures")["architectures"]["resnet50"]
    assert load_scenario("tf_resnet50").model.name in list_names("architectures")["architectures"]


def test_a_misspelt_key_is_still_unknown(toy, capsys):
    Path("misspelt.yaml").write_text(TOY + "  image_each: 3\n", encoding="utf-8")
    assert "images_each" in refused(capsys, "run", "misspelt.yaml", "--check")


def test_another_kind_by_set_has_the_keys_of_that_kind(toy, capsys):
    given = ("dlrm.yaml", "--set", "workload.kind=toy", "--set", "workload.model=squares")
    assert main(["run", *given, "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["workload"] == "toy"


def test_a_third_family_runs_from_file_to_page(toy, capsys):
    """Run, summary, page, terminal: with the family's unit, sections, warnings, facts and levers."""
    assert main(["run", "toy.yaml", "--out", "out", "--set", "cost={gpu_hour_usd: 2}"]) == 0
    printed = capsys.readouterr().out
    assert "images/s" in printed
    assert "per million images" in printed
    assert "samples" not in printed
    summary = json.loads(Path("out/summary.json").read_text(encoding="utf-8"))
    assert (summary["workload"], summary["unit"]) == ("toy", "images")
    assert summary["throughput_images_per_s"] == pytest.approx(16 * 64 / summary["iteration_time_s"])
    assert summary["throughput_p10_images_per_s"] < summary["throughput_p90_images_per_s"]
    assert summary["cost"]["million_images_usd"] > 0
    assert (summary["toy"], summary["toy_only"]) == ({"layers": 8}, True)
    assert "sharding" not in summary
    assert "a toy, no network that anybody trains" in summary["warnings"]
    assert "precision.all_reduce=fp16" in [lever["setting"] for lever in summary["levers"]["tried"]]
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert "images/s" in page
    assert "samples/s" not in page
    assert "Toy layers" in page
    again = dlrmsim.run("out/scenario.resolved.yaml", out="again", report=False, levers=False)
    assert again.summary["scenario_hash"] == summary["scenario_hash"]
    assert again.throughput_per_s == summary["throughput_images_per_s"]
    with pytest.raises(AttributeError, match="images"):
        _ = again.throughput_samples_per_s


def test_a_third_family_is_checked_and_swept(toy, capsys):
    assert main(["run", "toy.yaml", "--check"]) == 0
    printed = capsys.readouterr().out
    assert "tables" not in printed
    assert "memory, hbm" in printed
    assert main(["sweep", "toy.yaml", "--over", "nodes=1,2", "--workers", "1", "--out", "sizes"]) == 0
    printed = capsys.readouterr().out
    assert "images/s" in printed
    rows = pq.read_table("sizes/sweep.parquet").to_pylist()
    assert [row["status"] for row in rows] == ["ok", "ok"]
    assert rows[0]["throughput_images_per_s"] < rows[1]["throughput_images_per_s"]
    page = Path("sizes/scaling.html").read_text(encoding="utf-8")
    assert "images/s" in page
    assert "Toy layers" in page


def test_a_job_of_a_third_family_that_does_not_fit_ends_with_the_numbers(toy, capsys):
    assert main(["run", "toy.yaml", "--set", "workload.model.width.value=1000000", "--check"]) == 3
    message = capsys.readouterr().err
    assert "toy does not fit" in message
    assert "hbm: rank 0 needs" in message


def test_a_family_without_plans_refuses_to_plan(toy, capsys):
    message = refused(capsys, "plan", "toy.yaml")
    for part in ("toy.yaml:6", "workload.kind", "toy workloads have no plan", "dlrm"):
        assert part in message


def test_the_reference_trainer_refuses_other_kinds(toy, capsys):
    pytest.importorskip("torch")
    assert "the reference trainer serves dlrm workloads only" in refused(capsys, "measure", "toy.yaml", "--ranks", "1")


def test_a_third_family_is_solved_for(toy, capsys):
    """The batch that gives a throughput; messages and JSON in the family's unit."""
    known = dlrmsim.run("toy.yaml", out="known", report=False, levers=False).throughput_per_s
    batch = ["--key", "workload.global_batch_size", "--between", "512,4096", "--throughput", str(known)]
    assert main(["solve", "toy.yaml", *batch, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["found"]["throughput_images_per_s"] == pytest.approx(known, rel=1e-3)
    assert found["wanted_images_per_s"] == known


def test_kinds_are_listed(toy, capsys):
    assert main(["list", "workloads"]) == 0
    printed = capsys.readouterr().out
    assert "dlrm" in printed
    assert "toy" in printed
