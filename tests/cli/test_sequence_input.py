"""Wrong input of jobs with sequences: exit code 2, the place, what was given, what is expected, and nothing written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dlrmsim.cli import main
from tests.planning_jobs import made_up
from tests.planning_jobs import scenario_data as pooled_data
from tests.sequence_jobs import scenario_data

Edit = Callable[[dict[str, Any]], None]


def value_of(data: dict[str, Any], key: str, value: object) -> None:
    """Put a value at a dotted key; numbers are places in lists."""
    *holders, last = key.split(".")
    at: Any = data
    for part in holders:
        at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
    if isinstance(at, list):
        at[int(last)] = value
    else:
        at[last] = value


def to(key: str, value: object) -> Edit:
    return lambda data: value_of(data, key, value)


def both(*edits: Edit) -> Edit:
    def every(data: dict[str, Any]) -> None:
        for edit in edits:
            edit(data)

    return every


def without(key: str) -> Edit:
    def remove(data: dict[str, Any]) -> None:
        *holders, last = key.split(".")
        at: Any = data
        for part in holders:
            at = at[int(part)] if isinstance(at, list) else at[part]
        del at[last]

    return remove


MODEL = "workload.model"
LAW = f"{MODEL}.sequences.history.lengths.value"
PLAN = {"tables": {name: {"sharding_type": "row_wise"} for name in ("item", "artist", "user")}}
NODES = {**PLAN["tables"], "item": {"sharding_type": "table_row_wise", "ranks": [0, 1, 2, 3]}}

WRONG: dict[str, tuple[Edit, str, tuple[str, ...]]] = {
    "histogram beyond the maximum": (
        to(LAW, {"distribution": "histogram", "lengths": [3, 65], "weights": [1, 1]}),
        "distribution: histogram",
        ("beyond the maximum", "65", "at most max_length, 64"),
    ),
    "length beyond the maximum": (
        to(LAW, {"distribution": "fixed", "mean": 65}),
        "distribution: fixed",
        ("beyond the maximum", "65", "at most max_length, 64"),
    ),
    "uniform beyond the maximum": (
        to(LAW, {"distribution": "uniform", "low": 1, "high": 1000}),
        "distribution: uniform",
        ("beyond the maximum", "1000", "at most max_length, 64"),
    ),
    "scenario's length beyond the maximum": (
        to("workload.sequence_lengths", {"history": {"distribution": "fixed", "mean": 99}}),
        "",
        ("workload.sequence_lengths.history", "beyond the maximum", "99", "at most max_length, 64"),
    ),
    "length in part": (
        to(LAW, {"distribution": "fixed", "mean": 2.5}),
        "mean: 2.5",
        ("a length is a whole number", "2.5"),
    ),
    "no positions": (
        both(
            to(LAW, {"distribution": "histogram", "lengths": [0], "weights": [1]}),
            to(f"{MODEL}.sequences.history.targets.value", 0),
        ),
        "distribution: histogram",
        ("no sample has a position", "a length above 0"),
    ),
    "weights that are too few": (
        to(LAW, {"distribution": "histogram", "lengths": [3, 5], "weights": [1]}),
        "weights:",
        ("as many weights as lengths", "expected 2"),
    ),
    "a key of another distribution": (
        to(LAW, {"distribution": "geometric", "mean": 3.0, "high": 9}),
        "high: 9",
        ("a key of another distribution than geometric", "expected mean"),
    ),
    "an empty range": (
        to(LAW, {"distribution": "uniform", "low": 9, "high": 3}),
        "low: 9",
        ("the range 9 to 3 is empty", "low <= high"),
    ),
    "a table of an unknown sequence": (
        to(f"{MODEL}.tables.value.1.sequence", "histori"),
        "sequence: histori",
        (
            "a sequence feature without lengths",
            "histori",
            "one of sequences: history, context",
            "did you mean 'history'",
        ),
    ),
    "layers over an unknown sequence": (
        to(f"{MODEL}.hstu.sequence", "histroy"),
        "sequence: histroy",
        ("a sequence without lengths", "histroy", "history, context", "did you mean 'history'"),
    ),
    "an unknown context": (
        to(f"{MODEL}.hstu.context", "contest"),
        "context: contest",
        ("a sequence without lengths", "contest", "did you mean 'context'"),
    ),
    "a law for an unknown sequence": (
        to("workload.sequence_lengths", {"hisotry": {"distribution": "fixed"}}),
        "hisotry:",
        ("no such sequence", "hisotry", "one of history, context", "did you mean 'history'"),
    ),
    "pooled and unpooled": (
        to(f"{MODEL}.tables.value.0.pooling_factor", 3),
        "pooling_factor: 3",
        ("both of pooling_factor and sequence", "one of the two"),
    ),
    "neither pooled nor unpooled": (
        without(f"{MODEL}.tables.value.0.sequence"),
        "- name: item",
        ("neither of pooling_factor and sequence", "one of the two"),
    ),
    "a spread of bags of a sequence": (
        to(f"{MODEL}.tables.value.0.pooling_spread", {"distribution": "geometric"}),
        "pooling_spread:",
        ("vectors of a sequence are not pooled", "lengths of the sequence"),
    ),
    "a pooled table beside sequences": (
        both(without(f"{MODEL}.tables.value.0.sequence"), to(f"{MODEL}.tables.value.0.pooling_factor", 3)),
        "tables:",
        ("tables of an HSTU model without a sequence: item", "expected sequence"),
    ),
    "layers without their interaction": (
        to(f"{MODEL}.interaction.value", "cat"),
        "model:",
        ("hstu goes with interaction hstu",),
    ),
    "an interaction without its layers": (
        without(f"{MODEL}.hstu"),
        "",
        ("hstu goes with interaction hstu",),
    ),
    "dense features beside sequences": (
        both(to(f"{MODEL}.mlp.dense_features.value", 13), to(f"{MODEL}.mlp.bottom.value", [16])),
        "mlp:",
        ("reads sequences only", "dense_features: 0"),
    ),
    "contextual vectors of several widths": (
        lambda data: data["workload"]["model"]["tables"]["value"].append(
            {"name": "city", "rows": 9, "dim": 16, "sequence": "context"}
        ),
        "",
        ("contextual vectors of several widths", "16, 32", "equal dims"),
    ),
    "vectors of another width": (
        without(f"{MODEL}.hstu.preprocessor_width"),
        "",
        ("vectors of another width", "preprocessor_width"),
    ),
    "CPUs": (
        both(to("cluster", "xeon_8280_opa"), without("precision")),
        "cluster: xeon_8280_opa",
        ("not measured on CPUs", "a cluster of GPUs"),
    ),
    "divided layers": (
        to("workload.dense", {"top": {"node": "fsdp", "between": "ddp"}}),
        "dense:",
        ("a job with sequences has none of it", "layers over positions are data-parallel"),
    ),
    "hybrid embedding": (
        to("workload.hybrid_embedding", {}),
        "hybrid_embedding:",
        ("a job with sequences has none of it", "no such key"),
    ),
    "scatters": (
        to("workload.exchange", "scatter"),
        "exchange: scatter",
        ("a job with sequences has none of it", "all_to_all"),
    ),
    "a spread of bags": (
        to("workload.pooling_spread", {"distribution": "geometric"}),
        "pooling_spread:",
        ("a job with sequences has none of it", "sequence_lengths"),
    ),
    "a plan over nodes": (
        to("workload.sharding", {"plan": {"world_size": 4, "plan": {"tables": NODES}}}),
        "",
        ("item", "cut within nodes", "one of table_wise, column_wise, row_wise, data_parallel"),
    ),
    "a planner over nodes": (
        to("workload.sharding", {"planner": "table_row_wise"}),
        "planner: table_row_wise",
        ("no kind of sharding that TorchRec has for sequences", "table_row_wise", "row_wise", "column_wise", "greedy"),
    ),
    "another planner over nodes": (
        to("workload.sharding", {"planner": "grid_shard"}),
        "planner: grid_shard",
        ("no kind of sharding that TorchRec has for sequences", "grid_shard"),
    ),
    "a batching that is none": (
        to("workload.batching", "balance"),
        "batching: balance",
        ("balance", "random", "sorted", "balanced"),
    ),
    "a mode that is none": (to("workload.mode", "evaluate"), "mode: evaluate", ("train", "eval")),
    "no samples to a target": (
        to("workload.time_to_target", {"samples": 0}),
        "samples: 0",
        ("workload.time_to_target.samples",),
    ),
}

POOLED_WRONG: dict[str, tuple[Edit, str, tuple[str, ...]]] = {
    "batching": (to("workload.batching", "balanced"), "batching: balanced", ("small has no sequences", "no such key")),
    "layout": (
        to("workload.sequence_layout", "padded"),
        "sequence_layout: padded",
        ("small has no sequences", "no such key"),
    ),
    "lengths": (
        to("workload.sequence_lengths", {"history": {"distribution": "fixed"}}),
        "sequence_lengths:",
        ("small has no sequences", "a model such as mlperf_dlrm_v4_hstu"),
    ),
    "dedup": (
        to("workload.sharding", {"index_dedup": True}),
        "index_dedup: true",
        ("small has no sequences", "no such key"),
    ),
    "sequences that nothing reads": (
        to(
            f"{MODEL}.sequences",
            {"history": {"max_length": made_up(5), "lengths": made_up({"distribution": "fixed"})}},
        ),
        "interaction:",
        ("nothing reads the vectors of a sequence", "interaction: hstu"),
    ),
    "a table of a sequence": (
        both(
            without(f"{MODEL}.tables.value.0.pooling_factor"),
            to(f"{MODEL}.tables.value.0.sequence", "history"),
        ),
        "interaction:",
        ("nothing reads the vectors of a sequence",),
    ),
    "no dense features": (
        to(f"{MODEL}.mlp.dense_features.value", 0),
        "dense_features:",
        ("a DLRM has dense features", "1 or more"),
    ),
}


def refused(
    data: dict[str, Any], edit: Edit, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[str, list[str]]:
    """What a run prints of a wrong scenario, and the lines of its file."""
    data = json.loads(json.dumps(data))
    edit(data)
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert main(["run", str(file)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert sorted(folder.iterdir()) == before
    return shown.err, file.read_text(encoding="utf-8").splitlines()


def check(shown: str, lines: list[str], place: str, words: tuple[str, ...]) -> None:
    """All words stand in the message; the line that it names has the key that is wrong."""
    assert [word for word in words if word not in shown] == [], shown
    if place:
        found = re.search(r"job\.yaml:(\d+)", shown)
        assert found is not None, shown
        near = lines[int(found[1]) - 1 : int(found[1]) + 1]
        assert any(place in line for line in near), (shown, near)


@pytest.mark.parametrize("case", WRONG)
def test_wrong_sequences_are_refused(case, tmp_path, monkeypatch, capsys):
    edit, place, words = WRONG[case]
    shown, lines = refused(scenario_data(), edit, tmp_path, monkeypatch, capsys)
    check(shown, lines, place, words)


@pytest.mark.parametrize("case", POOLED_WRONG)
def test_keys_of_sequences_are_refused_without_sequences(case, tmp_path, monkeypatch, capsys):
    edit, place, words = POOLED_WRONG[case]
    shown, lines = refused(pooled_data(8), edit, tmp_path, monkeypatch, capsys)
    check(shown, lines, place, words)


FILES = {
    "length,count\n3,5\n64,1\n65,2\n": ("lengths.csv:4", "beyond the maximum", "65", "at most max_length, 64"),
    "length\n3\n99\n": ("lengths.csv:3", "beyond the maximum", "99", "at most max_length, 64"),
    "length\n3\n-1\n": ("lengths.csv:3", "-1"),
    "length\nmany\n": ("lengths.csv:2", "many"),
    "len,count\n3,5\n": ("lengths.csv:1", "wrong columns", "len,count", "a column length"),
    "length,count\n": ("lengths.csv", "no lengths"),
    "length,count\n4,0\n": ("lengths.csv:2", "count", "more than 0"),
}


@pytest.mark.parametrize("text", FILES)
@pytest.mark.parametrize("at", ["model", "scenario"])
def test_wrong_files_of_lengths_are_refused_with_the_line(text, at, tmp_path, monkeypatch, capsys):
    (tmp_path / "lengths.csv").write_text(text, encoding="utf-8")
    law = {"distribution": "file", "file": "lengths.csv"}
    edit = to(LAW, law) if at == "model" else to("workload.sequence_lengths", {"history": law})
    shown, _ = refused(scenario_data(), edit, tmp_path, monkeypatch, capsys)
    check(shown, [], "", FILES[text])


def test_a_missing_file_of_lengths_is_refused(tmp_path, monkeypatch, capsys):
    law = {"distribution": "file", "file": "lengths.csv"}
    shown, lines = refused(scenario_data(), to(LAW, law), tmp_path, monkeypatch, capsys)
    check(shown, lines, "file: lengths.csv", ("no such file", "lengths.csv", "a CSV with a column length"))


def test_a_job_too_large_for_its_gpus_has_remedies_that_fit(tmp_path, monkeypatch, capsys):
    """Eight GPUs of 80 GB: exit code 3, a remedy for each line, and the first one does fit."""
    monkeypatch.chdir(tmp_path)
    arguments = ["run", "mlperf_dlrm_v4_hstu", "--cluster", "dgx_h100", "--check"]
    assert main(arguments) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "does not fit" in shown.err
    remedies = re.findall(r"would fit: ((?:--set \S+ ?)+)", shown.err)
    assert remedies, shown.err
    for remedy in remedies:
        assert main([*arguments, *remedy.split()]) == 0, remedy
    assert list(tmp_path.iterdir()) == []
    assert main(["run", "mlperf_dlrm_v4_hstu", "--cluster", "dgx_b200", "--check"]) == 0
