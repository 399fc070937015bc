"""``python -m benchmarks cli``: how long a user waits, start-up included, each case in a fresh process."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.rows import Row


def rows() -> Iterator[Row]:
    """Wall times of commands, processor times of networks; ``--help``: median of five, after one run."""
    helps = sorted(_wall(["--help"]) for _ in range(6))
    yield Row("help_s", helps[2], "s", "<= 0.5")
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small"), Path(folder, "large")
        yield Row("run_128_s", _wall(["run", "zionex_a_128", "--out", str(small)]), "s", "<= 5")
        yield Row("run_4096_s", _wall([*_LARGE, "--out", str(large)]), "s", "<= 15")
        convnet = str(Path(folder, "convnet"))
        yield Row("convnet_64_cpu_s", _cpu([*_CONVNET, "nodes=64", "--out", convnet]), "s", "<= 5")
        served = [*_SERVED, "--out", str(Path(folder, "served"))]
        yield Row("parameter_servers_1024_cpu_s", _cpu(served), "s", "<= 20")
        for name, (settings, limit) in _TRANSFORMERS.items():
            yield Row(f"{name}_cpu_s", _cpu(["run", *settings, "--out", str(Path(folder, name))]), "s", limit)
        yield Row("report_128_bytes", (small / "report.html").stat().st_size, "B")
        yield Row("report_4096_bytes", (large / "report.html").stat().st_size, "B", "<= 12e6")


_LARGE = ("run", "zionex_a_128", "--set", "nodes=512", "--set", f"workload.global_batch_size={4096 * 512}")


def _set(scenario: str, *settings: str) -> list[str]:
    """Arguments that set keys of a scenario."""
    return [scenario, *(argument for setting in settings for argument in ("--set", setting))]


_TRANSFORMERS = {
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
"""Scenario, settings, and the most processor time of a run of each transformer."""

_CONVNET = ("run", "tf_resnet50", "--set")
_SERVED = (*_CONVNET, "nodes=1024", "--set", "workload.strategy=grpc_ps")


def _cpu(arguments: Sequence[str]) -> float:
    """Processor time of a command and the processes it starts, seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _wall(arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _wall(arguments: Sequence[str]) -> float:
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "dlrmsim", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"dlrmsim {' '.join(arguments)} failed:\n{done.stderr}")
    return time.perf_counter() - begin
