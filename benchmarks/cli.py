"""``python -m benchmarks cli``: processor time of commands, start-up included, each case in a fresh process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.commands import cost_of, median_cpu_s
from benchmarks.rows import Row


def rows() -> Iterator[Row]:
    """Start-up, and jobs of every family; ``python -m benchmarks costs`` has large ones."""
    yield Row("help_cpu_s", median_cpu_s(["--help"]), "s", "<= 0.15")
    yield Row("list_clusters_cpu_s", median_cpu_s(["list", "clusters"]), "s", "<= 0.25")
    yield Row("check_128_cpu_s", median_cpu_s(["run", "zionex_a_128", "--check"]), "s", "<= 0.7")
    with tempfile.TemporaryDirectory() as folder:
        for name, (command, limit) in _RUNS.items():
            yield Row(f"{name}_cpu_s", cost_of(["run", *command, "--out", str(Path(folder, name))]).cpu_s, "s", limit)
        yield Row("report_128_bytes", Path(folder, "run_128", "report.html").stat().st_size, "B")


def _set(scenario: str, *settings: str) -> list[str]:
    """Arguments that set keys of a scenario."""
    return [scenario, *(argument for setting in settings for argument in ("--set", setting))]


_RUNS = {
    "run_128": (_set("zionex_a_128"), "<= 2.5"),
    "convnet_64": (_set("tf_resnet50", "nodes=64"), "<= 5"),
    "parameter_servers_1024": (_set("tf_resnet50", "nodes=1024", "workload.strategy=grpc_ps"), "<= 20"),
    "sequences_4096": (
        _set(
            "mlperf_dlrm_v4_hstu", "cluster=dgx_h100", "nodes=512", "workload.global_batch_size=1048576",
            "workload.sharding.index_dedup=true",
        ),
        "<= 15",
    ),
    "llama3_70b_fsdp_1024": (
        _set("llama3_8b_fsdp_128", "nodes=128", "workload.model=llama3_70b", "workload.sequences=2048"), "<= 10",
    ),
    "llama3_70b_3d_1024": (_set("llama3_70b_3d_256", "nodes=128", "workload.sequences=512"), "<= 10"),
    "llama3_405b_3d_16384": (
        _set(
            "llama3_70b_3d_256", "cluster=fat_tree_16k", "nodes=2048", "workload.model=llama3_405b",
            "workload.parallel.pipeline=16", "workload.sequences=2048",
        ),
        "<= 60",
    ),
    "llama3_70b_interleaved_256": (_set("llama3_70b_3d_256", "workload.parallel.virtual_stages=5"), "<= 40"),
    "gpt3_175b_512": (_set("gpt3_175b_512"), "<= 40"),
}  # fmt: skip
"""Scenario and settings of a run, and its most processor time."""
