"""Served DLRMs on the command line: a run with all its files, other commands, and wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlrmsim.cli import main

NAME = "hps_mlperf_dlrm_dcnv2"
SMALL = (
    "world_size=2", "workload.model=cpu_dlrm_small", "workload.max_batch=32", "workload.requests_per_s=2000",
    "workload.simulated_time=1s",
)  # fmt: skip


def settings(*given: str) -> list[str]:
    return [word for setting in given for word in ("--set", setting)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_prints_latency_and_its_files_are_read_again(here: Path, capsys) -> None:
    assert main(["run", NAME, *settings(*SMALL), "--out", "run"]) == 0
    printed = capsys.readouterr().out
    for words in ("latency, p99", "p99.9", "capacity", "2.00 k requests/s", "in GPU caches"):
        assert words in printed
    summary = json.loads(Path("run/summary.json").read_text(encoding="utf-8"))
    serving = summary["serving"]
    assert summary["workload"] == "inference"
    assert serving["latency_p10"]["p99_s"] < serving["latency"]["p99_s"] < serving["latency_p90"]["p99_s"]
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert 'id="serving-load"' in page
    assert 'id="serving-tiers"' in page
    assert main(["run", "run/scenario.resolved.yaml", "--no-levers", "--no-report", "--out", "again"]) == 0
    assert json.loads(Path("again/summary.json").read_text(encoding="utf-8"))["serving"] == serving
    assert main(["import", "run/timeline.parquet", "--out", "imported"]) == 0, "there is no collective in it"
    imported = json.loads(Path("imported/summary.json").read_text(encoding="utf-8"))
    assert imported["iteration_time_s"] == pytest.approx(summary["iteration_time_s"], rel=1e-3)


def test_a_sweep_has_latency_and_the_rates_that_are_too_high(here: Path, capsys) -> None:
    over = "workload.requests_per_s=1000,100000,10000000"
    assert (
        main(
            [
                "sweep",
                NAME,
                *settings(*SMALL[:3], "workload.simulated_time=1s"),
                "--over",
                over,
                "--json",
                "--workers",
                "1",
            ]
        )
        == 0
    )
    rows = json.loads(capsys.readouterr().out)["points"]
    assert [row["status"] for row in rows] == ["ok", "ok", "infeasible"]
    assert rows[0]["latency_p99_s"] != rows[1]["latency_p99_s"]
    assert "latency_p99_s" not in rows[2] or rows[2]["latency_p99_s"] is None
    assert "requests_per_s" in rows[2]["message"]


@pytest.mark.parametrize("command", [["plan", NAME], ["measure", NAME]])
def test_commands_for_training_refuse_in_one_sentence(here: Path, capsys, command) -> None:
    assert main(command) == 2
    message = capsys.readouterr().err
    assert "workload.kind" in message
    assert message.count("\n") == 1
    assert not list(here.iterdir())


def test_advice_on_too_high_a_rate_is_more_nodes(here: Path, capsys) -> None:
    assert main(["advise", NAME, *settings("workload.requests_per_s=4000000")]) == 0
    printed = capsys.readouterr().out
    assert "workload.requests_per_s" in printed
    assert "--set nodes=" in printed


@pytest.mark.parametrize(
    ("given", "key", "expected"),
    [
        ("workload.gpu_cache=1.5", "workload.gpu_cache", "from 0 to 1"),
        ("workload.gpu_cache=-0.1", "workload.gpu_cache", "from 0 to 1"),
        ("workload.host_memory=2", "workload.host_memory", "from 0 to 1"),
        ("workload.requests_per_s=0", "workload.requests_per_s", "0.001 or more"),
        ("workload.requests_per_s=1e12", "workload.requests_per_s", "1000000000.0 or less"),
        ("workload.max_batch=0", "workload.max_batch", "1 or more"),
        ("workload.samples_per_request=2000", "workload.samples_per_request", "at most 1024"),
        ("workload.max_wait=-1s", "workload.max_wait", "from 0 s"),
        ("workload.routing=rand", "workload.routing", "random"),
        ("workload.simulated_time=0s", "workload.simulated_time", "from 1 us"),
        ("workload.simulated_time=1h", "workload.simulated_time", "20 s"),
        ("workload.simulated_time=1us", "workload.simulated_time", "0.001 s to"),
        ("workload.global_batch_size=1001", "workload.global_batch_size", "a multiple of 8, e.g. 1000"),
        ("workload.gradient_accumulation=2", "workload.gradient_accumulation", "1"),
        ("workload.gradient_buckets={bytes: 1 MiB}", "workload.gradient_buckets", "no such key"),
        ("workload.optimizer.dense=adam", "workload.optimizer", "no such key"),
        ("network.backend=mpi", "network.backend", "no such key"),
        ("cluster=zen5_2_cores", "cluster", "xeon_8280_opa"),
        ("cluster=dgx1_v100", "workload.host_memory", "nodes with ssd"),
        ("workload.model=resnet50", "workload.model", "mlperf_dlrm_dcnv2"),
        ("workload.sharding.planner=greedy", "workload.sharding", "routing"),
        ("workload.request_per_s=5", "workload.request_per_s", "requests_per_s"),
    ],
)
def test_wrong_input_is_refused_with_key_and_expected_value(here: Path, capsys, given, key, expected) -> None:
    assert main(["run", NAME, *settings(given)]) == 2
    message = capsys.readouterr().err
    assert key in message
    assert expected in message
    assert not list(here.iterdir())


@pytest.mark.parametrize("key", ["gpu_cache=0.2", "host_memory=0.5", "host_threads=2"])
def test_cpus_have_no_tiers(here: Path, capsys, key) -> None:
    assert main(["run", "hps_cpu_dlrm_dcnv2", *settings(f"workload.{key}")]) == 2
    assert "have no GPUs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("workload.requests_per_s=3000000", "% of what 8 servers can answer"),
        ("workload.gpu_cache=1", "caches 109 GB"),
    ],
)
def test_jobs_that_cannot_run_exit_with_3(here: Path, capsys, given, words) -> None:
    assert main(["run", NAME, *settings(given)]) == 3
    assert words in capsys.readouterr().err
    assert not list(here.iterdir())
