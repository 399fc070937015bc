"""Runs with pipelines, passes, graphs and readers: every file is written and says what was asked for."""

from __future__ import annotations

import gzip
import json

import pytest

from dlrmsim.cli import main

READERS = "workload.ingestion={reader_hosts: 4, cores_per_host: 32, decode_bytes_per_s: 10 MB/s, queue_batches: 6}"


@pytest.mark.parametrize(
    "settings",
    [
        ("workload.pipeline=semi_sync", "workload.gradient_accumulation=2"),
        ("workload.pipeline=prefetch", "workload.cuda_graph=network", "workload.hybrid_embedding={}"),
        ("workload.pipeline=inter_iteration", "workload.cuda_graph=iteration"),
    ],
)
def test_a_run_writes_all_of_it(settings, tmp_path, capsys):
    keys = [
        part
        for setting in ("workload.framework=neo", *settings, READERS, "world_size=4")
        for part in ("--set", setting)
    ]
    assert main(["run", "mlperf_dlrm_v1", *keys, "--out", str(tmp_path / "x")]) == 0
    assert "iteration time" in capsys.readouterr().out
    summary = json.loads((tmp_path / "x" / "summary.json").read_text())
    asked = dict(setting.split("=", 1) for setting in settings)
    assert summary["pipeline"]["name"] == asked["workload.pipeline"]
    assert summary["pipeline"]["staleness_iterations"] == (asked["workload.pipeline"] == "semi_sync")
    assert summary["bound"]["class"] == "input"
    with gzip.open(tmp_path / "x" / "trace.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    launches = [event["id"] for event in events if event.get("cat") == "ac2g" and event["ph"] == "s"]
    assert len(launches) == len(set(launches))
    named = {event["name"] for event in events}
    assert {"read_batch", "receive_batch"} <= named
    assert ("launch_graph_0" in named) == ("workload.cuda_graph" in asked)
