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
