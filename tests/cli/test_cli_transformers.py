"""`plan`, `advise` and wrong input about transformers, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlrmsim.cli import main
from tests.unit.test_scenarios_transformer_plan import MODEL, SMALL

NAME = "llama3_8b_fsdp_128"
HERE = [word for setting in SMALL for word in ("--set", setting)]
ROOM = ["--set", "cluster.node.gpu.memory_bytes=3 GB"]
TINY = "{name: tiny, title: two layers, layers: 2, hidden: 768, heads: 12, ffn: 2048, vocabulary: 1000, sequence: 128}"


def test_the_written_plan_runs_in_the_time_of_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plan", NAME, *HERE, *ROOM, "--out", "plan"]) == 0
    printed = capsys.readouterr().out
    for part in (
        "134 divisions",
        "simulated (at most 128)",
        "without room",
        "why it does not fit",
        "as settings: --set",
    ):
        assert part in printed, part
    statistics = json.loads(Path("plan/statistics.json").read_text())
    assert set(json.loads(Path("plan/run.json").read_text())["files"]) == {p.name for p in Path("plan").iterdir()}
    assert statistics["compared"][0]["settings"] == statistics["settings"]
    assert main(["run", "plan/plan.json", "--json", "--no-levers", "--no-report", "--out", "again"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["iteration_time_s"] == statistics["iteration_time_s"]
    assert summary["scenario_hash"] == statistics["scenario_hash"]
    changes = [word for setting in statistics["settings"] for word in ("--set", setting)]
    assert main(["run", NAME, *HERE, *ROOM, *changes, "--json", "--no-levers", "--no-report", "--out", "other"]) == 0
    assert json.loads(capsys.readouterr().out)["iteration_time_s"] == statistics["iteration_time_s"]


def test_a_plan_as_json_has_the_scenario_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = []
    for _ in range(2):
        assert main(["plan", NAME, *HERE, *ROOM, "--json"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    found = json.loads(outputs[0])
    assert found["plan"]["workload"]["kind"] == "transformer"
    assert found["search"]["simulated"] == len(found["compared"])
    assert found["search"]["left"] == 0
    assert all(row["excess_bytes"] > 0 for row in found["refused"])
    assert list(tmp_path.iterdir()) == []


def test_a_comparison_simulates_divisions_that_cannot_be_the_fastest(capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for options in ([], ["--compare"]):
        assert main(["plan", NAME, *HERE, *ROOM, "--json", *options]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["plan"] == found[1]["plan"]
    assert len(found[0]["compared"]) < len(found[1]["compared"])
    assert found[1]["search"]["cannot_be_faster"] == 0


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_a_job_without_room_ends_with_remedies_and_writes_nothing(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([verb, NAME, *HERE, "--set", "cluster.node.gpu.memory_bytes=2.6 GB", "--out", "folder"]) == 3
    said = capsys.readouterr().err
    for part in ("does not fit", "too much", "would fit: --set nodes="):
        assert part in said, said
    assert list(tmp_path.iterdir()) == []


def test_advice_names_what_saves_or_what_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", NAME, *HERE]) == 0
    assert "--set workload.parallel.sharding=optimizer" in capsys.readouterr().out
    assert main(["advise", NAME, *HERE, *ROOM, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is False
    assert found["remedies"]
    assert main(["advise", NAME, *HERE, "--set", "cluster.node.gpu.memory_bytes=1 GB"]) == 3
    assert "does not fit" in capsys.readouterr().err


WRONG = {
    "workload.parallel.tensor=3": ("workload.parallel.tensor", "given 3", "divisor of 128", "did you mean '2'"),
    "workload.parallel.tensor=16": ("kv_heads=8", "given 16", "divisor of 8", "did you mean '8'"),
    f"workload.model={TINY};workload.parallel.tensor=8": ("heads=12", "given 8", "divisor of 12", "did you mean '4'"),
    f"workload.model={TINY.replace('2048', '2047')};workload.parallel.tensor=4": ("ffn=2047", "divisor of 2047"),
    "workload.parallel.tensor=two": ("workload.parallel.tensor", "given 'two'", "a whole number"),
    "workload.parallel.tensr=2": ("workload.parallel.tensr", "unknown key", "did you mean 'tensor'"),
    "workload.parallel.data=64": ("workload.parallel.data", "= 64, and there are 128 ranks", "expected 128"),
    "workload.parallel.tensor=4;workload.parallel.data=128": ("workload.parallel.data", "= 512", "expected 32"),
    "workload.parallel.pipeline=3": ("workload.parallel.pipeline", "given 3", "divisor of 128", "did you mean '2'"),
    "workload.parallel.tensor=8;workload.parallel.pipeline=3": (
        "workload.parallel.pipeline", "the 16 of 128 ranks that are left", "did you mean '2'",
    ),
    "workload.parallel.pipeline=64": ("workload.parallel.pipeline", "32 layers", "given 64", "at most 32"),
    "workload.parallel.pipeline=4;workload.sequences=64": ("workload.parallel.pipeline", "given 4", "at most 1"),
    "workload.parallel.pipeline=8;workload.parallel.virtual_stages=8": (
        "workload.parallel.virtual_stages", "32 layers", "given 8", "at most 4",
    ),
    "workload.parallel.context=3;world_size=96;nodes=null": ("sequence=8192", "given 3", "did you mean '2'"),
    "workload.parallel.sharding=hybrid;workload.parallel.shard_size=7": ("128 ranks", "given 7", "did you mean '8'"),
    "workload.sequences=100": ("workload.sequences", "given 100", "a multiple of 256", "256 or 512"),
    "precision.dense=fp8;cluster=dgx_a100_80": ("precision.dense", "a100_sxm4_80", "given 'fp8'", "bf16"),
    "workload.attention=flash3;cluster=dgx_a100_80": ("workload.attention", "Hopper", "given 'flash3'", "flash2"),
    "precision.dense=fp32": ("workload.attention", "16 bits", "given 'flash2'", "unfused"),
    "workload.model=gpt2;workload.sequence=2048": ("workload.sequence", "1024 places", "given 2048", "at most 1024"),
    "workload.attention=flsh2": ("workload.attention", "given 'flsh2'", "did you mean 'flash2'"),
    "workload.model=llama3_8c": ("workload.model", "given 'llama3_8c'", "did you mean 'llama3_8b'"),
    "workload.model=zionex_a": ("workload.model", "a model of workload.kind dlrm", "bert_base"),
    "workload.model=resnet50": ("workload.model", "a model of workload.kind convnet", "bert_base"),
    f"workload.model={MODEL.replace('layers: 4', 'layers: four')}": ("workload.model.layers", "'four'", "whole number"),
    f"workload.model={MODEL.replace('heads: 8', 'heads: 7')}": ("workload.model.heads", "given 7", "hidden=2048"),
    f"workload.model={MODEL.replace('norm: rms', 'norm: rsm')}": ("workload.model.norm", "'rsm'", "layer, rms"),
    f"workload.model={MODEL.replace('ffn', 'fnn')}": ("workload.model.fnn", "did you mean 'ffn'"),
}  # fmt: skip


@pytest.mark.parametrize("verb", ["run", "plan", "advise"])
@pytest.mark.parametrize("settings", WRONG)
def test_wrong_settings_are_refused_with_key_given_and_expected(
    settings: str, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    changes = [word for setting in settings.split(";") for word in ("--set", setting)]
    out = [] if verb == "advise" else ["--out", "folder"]
    assert main([verb, NAME, *changes, *out]) == 2
    said = capsys.readouterr().err
    for word in WRONG[settings]:
        assert word in said, said
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.yaml"
    lines = [
        "schema: 1", "name: job", "cluster: dgx_h100", "nodes: 2", "workload:", "  kind: transformer",
        "  model: llama3_8b", "  sequences: 16", "  parallel:", "    tensor: 2", "    pipeline: 3",
    ]  # fmt: skip
    file.write_text("\n".join(lines), encoding="utf-8")
    assert main(["run", str(file), "--check"]) == 2
    assert f"{file}:11: workload.parallel.pipeline: does not divide" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--planner", "greedy"], ("--planner", "given 'greedy'", "no planner")),
        (["--fresh"], ("--fresh", "--compare")),
    ],
)
def test_options_that_mean_nothing_are_refused(
    options: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", NAME, *options]) == 2
    said = capsys.readouterr().err
    assert all(word in said for word in words), said
