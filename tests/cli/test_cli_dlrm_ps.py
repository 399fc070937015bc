"""Parameter servers on the command line: a run with all its files, and wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlrmsim.cli import main

SMALL = (
    "nodes=6", "workload.model=cpu_dlrm_small", "workload.sparse_servers=2", "workload.dense_servers=1",
    "workload.readers=1", "workload.threads=8",
)  # fmt: skip


def settings(*given: str) -> list[str]:
    return [word for setting in given for word in ("--set", setting)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_has_its_report_timeline_memory_and_bound(here: Path, capsys) -> None:
    assert main(["run", "ps_async_a", *settings(*SMALL), "--out", "run"]) == 0
    printed = capsys.readouterr().out
    for words in ("HBM", "hbm", "NVLink", "1 readers"):
        assert words not in printed
    page = Path("run/report.html").read_text(encoding="utf-8")
    shown = page.split('id="bound"')[1].split("</section>")[0] + page.split('id="memory"')[1].split("</section>")[0]
    assert "DDR" in shown
    assert "HBM" not in shown
    assert "memory-1" not in shown, "there is one memory"
    summary = json.loads(Path("run/summary.json").read_text(encoding="utf-8"))
    assert summary["workload"] == "dlrm_ps"
    assert summary["parameter_servers"]["trainers"] == 2
    assert summary["throughput_samples_per_s"] * summary["iteration_time_s"] == pytest.approx(2 * 8 * 150)
    assert summary["bound"]["joint"]["class"]
    assert summary["memory"]["hbm"]["items"]["weights"]["mean_bytes"] > 0
    assert Path("run/timeline.parquet").stat().st_size > 0
    assert "2 of tables, 1 of dense parameters, 1 reader" in page
    assert "parameter servers" in printed
    assert "2 trainers" in printed


def test_check_prints_memory_and_runs_nothing(here: Path, capsys) -> None:
    assert main(["run", "ps_async_a", "--check"]) == 0
    out = capsys.readouterr().out
    assert "memory" in out
    assert out.count("15 trainers, 40 threads each") == 1
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    ("given", "key", "expected"),
    [
        ("workload.sparse_servers=65", "workload.sparse_servers", "at most 57"),
        ("workload.readers=30", "workload.sparse_servers", "at most 32"),
        ("workload.trainers=20", "workload.trainers", "15, or no such key"),
        ("workload.dense_servers=0", "workload.dense_servers", "1 or more"),
        ("workload.threads=0", "workload.threads", "1 or more"),
        ("workload.batch_per_thread=0", "workload.batch_per_thread", "1 or more"),
        ("workload.sync_every=0", "workload.sync_every", "1 or more"),
        ("workload.readers=-1", "workload.readers", "0 or more"),
        ("workload.model=resnet50", "workload.model", "zionex_a"),
        ("workload.placement=size", "workload.placement", "bytes, lookups"),
        ("workload.strategy=grpc_ps", "workload.strategy", "trainers"),
        ("workload.global_batch_size=1001", "workload.global_batch_size", "a multiple of 600, e.g. 600"),
        ("workload.gradient_accumulation=2", "workload.gradient_accumulation", "1"),
        ("workload.gradient_buckets={bytes: 1 MiB}", "workload.gradient_buckets", "workload.sync_every"),
        ("precision.all_reduce=fp16", "precision.all_reduce", "fp32"),
        ("network.backend=mpi", "network.backend", "no such key"),
        ("network.backend=ccl", "network.backend", "no such key"),
        ("cluster=zionex", "cluster", "cpu_servers_25gbe"),
    ],
)
def test_wrong_input_is_refused_with_key_and_expected_value(here: Path, capsys, given, key, expected) -> None:
    assert main(["run", "ps_async_a", *settings(given)]) == 2
    message = capsys.readouterr().err
    assert key in message
    assert expected in message
    assert not list(here.iterdir())


def test_keys_of_parameter_servers_are_refused_elsewhere(here: Path, capsys) -> None:
    assert main(["run", "zionex_a_128", *settings("workload.sparse_servers=2")]) == 2
    assert "dlrm_ps" in capsys.readouterr().err


def test_tables_that_do_not_fit_are_refused(here: Path, capsys) -> None:
    """3.2 TB on 8 servers of 256 GB."""
    assert main(["run", "ps_async_a", *settings("nodes=20", "workload.sparse_servers=8")]) == 3
    assert "weights 397 GB" in capsys.readouterr().err
    assert not list(here.iterdir())


def test_a_sweep_keeps_the_batch_of_a_thread(here: Path, capsys) -> None:
    assert (
        main(
            [
                "sweep",
                "ps_async_a",
                *settings(*SMALL[1:]),
                "--over",
                "nodes=5,6,8",
                "--json",
            ]
        )
        == 0
    )
    rows = json.loads(capsys.readouterr().out)["points"]
    assert [row["global_batch_size"] for row in rows] == [trainers * 8 * 150 for trainers in (1, 2, 4)]
