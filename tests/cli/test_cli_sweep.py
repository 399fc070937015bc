"""``dlrmsim sweep`` as a user calls it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dlrmsim.cli import main
from tests.command import installed_command
from tests.waiting import soon

ARGUMENTS = ["sweep", "mlperf_dlrm_v1", "--set", "cluster=zionex", "--over", "world_size=1,2,16"]


def test_a_sweep_in_processes_writes_its_table_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ARGUMENTS, "--workers", "2", "--out", str(tmp_path / "two")]) == 0
    printed = capsys.readouterr().out
    assert "infeasible" in printed
    assert "scaling.html" in printed
    rows = pq.read_table(tmp_path / "two" / "sweep.parquet").to_pylist()
    assert [(row["world_size"], row["status"]) for row in rows] == [(1, "infeasible"), (2, "ok"), (16, "ok")]
    assert "does not fit" in (tmp_path / "two" / "scaling.html").read_text(encoding="utf-8")
    assert main([*ARGUMENTS, "--workers", "1", "--json", "--out", str(tmp_path / "one")]) == 0
    assert json.loads(capsys.readouterr().out)["points"][2]["nodes"] == 2
    one, two = ((tmp_path / name / "sweep.parquet").read_bytes() for name in ("one", "two"))
    assert one == two, "the number of workers changes nothing"


GRID = ["sweep", "mlperf_dlrm_v1", "--over", "precision.dense=fp16,fp32", "--over", "world_size=1,2,4"]


def test_a_grid_has_a_line_and_a_table_for_each_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*GRID, "--set", "cluster=zionex", "--workers", "2"]) == 0
    printed = capsys.readouterr().out
    assert "fp16 is the fastest at 4 GPUs" in printed
    assert printed.count("1 GPU: infeasible") == 2
    (folder,) = Path("runs").iterdir()
    assert folder.name.startswith("mlperf_dlrm_v1-precision_dense-weak-")
    rows = pq.read_table(folder / "sweep.parquet").to_pylist()
    assert [(row["precision.dense"], row["world_size"], row["status"]) for row in rows] == [
        (dense, size, "infeasible" if size == 1 else "ok") for dense in ("fp16", "fp32") for size in (1, 2, 4)
    ]
    assert [row["efficiency"] for row in rows if row["world_size"] == 2] == [1.0, 1.0]
    assert main([*GRID, "--set", "cluster=zionex", "--workers", "1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["over"] == {"precision.dense": ["fp16", "fp32"], "world_size": ["1", "2", "4"]}
    assert [point["iteration_time_s"] for point in said["points"]] == [row["iteration_time_s"] for row in rows]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--over", "nodez=1,2"], ["--over nodez=1: nodez: unknown key", "did you mean 'nodes'?"]),
        (["--over", "nodes=1", "--over", "nodes=2"], ["--over: nodes: the key is swept twice"]),
        (["--over", "nodes=1,2,4,...,60"], ["--over: nodes: the series does not reach 60", "32 or 64"]),
        (["--over", "workload.servers=1,2"], ["--over workload.servers=1: ", "a key of convnet workloads"]),
        (["--over", "precision.dense=fp16", "--scaling", "weak"], ["--scaling: has no effect where neither nodes"]),
    ],
)
def test_wrong_keys_and_values_are_refused_and_nothing_is_written(
    arguments: list[str], parts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "mlperf_dlrm_v1", *arguments, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert [part for part in parts if part not in said] == []
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_ours_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert main([*ARGUMENTS, "--out", str(tmp_path)]) == 2
    assert "notes.txt" in capsys.readouterr().err


def test_dask_that_is_not_installed_is_said_with_its_pip_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        assert main([*ARGUMENTS, "--executor", "dask://127.0.0.1:1", "--out", str(tmp_path / "x")]) == 2
        assert "pip install 'dlrmsim[cluster]'" in capsys.readouterr().err
    assert main([*ARGUMENTS, "--executor", "spark://x", "--out", str(tmp_path / "x")]) == 2
    assert not (tmp_path / "x").exists()


def living(group: int) -> int:
    """Processes of a process group that still run."""
    states = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            states.append(fields[0])
    return sum(state != "Z" for state in states)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted in /proc")
def test_an_interrupt_ends_all_workers_and_writes_nothing(tmp_path: Path) -> None:
    """Ctrl-C in a terminal reaches the whole process group."""
    command = [installed_command(), "sweep", "zionex_a_128", "--over", "nodes=64,128,...,1024"]
    process = subprocess.Popen(
        [*command, "--workers", "2", "--out", str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert soon(lambda: living(process.pid) >= 3, seconds=20.0)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert said == "dlrmsim: interrupted; nothing was written\n"
    assert list(tmp_path.iterdir()) == []
    assert soon(lambda: living(process.pid) == 0, seconds=20.0)
