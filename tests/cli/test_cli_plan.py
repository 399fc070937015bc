"""``dlrmsim plan`` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlrmsim.cli import main

SCENARIO = ["plan", "mlperf_dlrm_v1", "--set", "nodes=2"]


def test_it_prints_every_rank_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(SCENARIO) == 0
    printed = capsys.readouterr().out
    assert "26 tables on 16 ranks, 8 per node, planned by greedy" in printed
    rows = [line.split() for line in printed.splitlines() if line.strip()[:2].strip().isdigit()]
    assert [int(row[0]) for row in rows] == list(range(16))
    assert all("DP:" in row for row in rows)
    for name in ("hbm", "ddr", "perf", "input", "output"):
        assert any(line.startswith(name) for line in printed.splitlines()), name
    assert list(tmp_path.iterdir()) == []


def test_the_written_plan_runs_as_the_planners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """plan.json goes into `workload.sharding.plan`, and the same comes out of `plan` again."""
    assert main([*SCENARIO, "--planner", "karmarkar_karp", "--out", str(tmp_path / "a")]) == 0
    plan = json.loads((tmp_path / "a" / "plan.json").read_text())
    told = json.loads((tmp_path / "a" / "statistics.json").read_text())
    assert set(json.loads((tmp_path / "a" / "run.json").read_text())["files"]) == {
        p.name for p in (tmp_path / "a").iterdir()
    }
    capsys.readouterr()
    setting = f"workload.sharding.plan={tmp_path / 'a' / 'plan.json'}"
    assert main([*SCENARIO, "--set", setting, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["plan"] == plan
    assert again["statistics"] == told["statistics"]
    assert again["iteration_time_s"] == told["iteration_time_s"]
    assert main(["run", "mlperf_dlrm_v1", "--set", "nodes=2", "--set", setting, "--json", "--no-report",
                 "--out", str(tmp_path / "b")]) == 0  # fmt: skip
    assert json.loads(capsys.readouterr().out)["iteration_time_s"] == told["iteration_time_s"]


def test_planners_are_compared_fastest_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*SCENARIO, "--set", "workload.sharding.steps=4", "--compare", "--json", "--out", str(tmp_path / "a")]
    assert main(command) == 0
    rows = json.loads(capsys.readouterr().out)["compared"]
    times = [row["iteration_time_s"] for row in rows if row["iteration_time_s"] is not None]
    assert times == sorted(times)
    assert rows[0]["planner"] == "search"
    assert [row["planner"] for row in rows if row["iteration_time_s"] is None] == ["data_parallel"]
    assert "does not fit" in rows[-1]["message"]
    assert "copies of all tables" in (tmp_path / "a" / "plan.html").read_text(encoding="utf-8")


def test_two_calls_print_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for _ in range(2):
        assert main([*SCENARIO, "--planner", "search", "--set", "workload.sharding.steps=9", "--json"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--planner", "serch"], 2, "did you mean 'search'"),
        (["--planner", "data_parallel"], 3, "copies of all tables need"),
        (["--set", "workload.sharding.steps=-1"], 2, "steps"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert main([*SCENARIO, *arguments, "--out", str(tmp_path / "a")]) == code
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert main([*SCENARIO, "--out", str(tmp_path)]) == 2
    assert "notes.txt" in capsys.readouterr().err


def test_of_many_ranks_the_ends_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "zionex_i_128"]) == 0
    printed = capsys.readouterr().out
    assert "the 8 slowest and fastest of 128 ranks" in printed
    assert len([line for line in printed.splitlines() if line.split() and line.split()[0].isdigit()]) == 16
