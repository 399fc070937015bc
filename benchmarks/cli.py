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
    """Wall times of commands, processor time of a network; ``--help``: median of five, after one run."""
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
        yield Row("report_128_bytes", (small / "report.html").stat().st_size, "B")
        yield Row("report_4096_bytes", (large / "report.html").stat().st_size, "B", "<= 12e6")


_LARGE = ("run", "zionex_a_128", "--set", "nodes=512", "--set", f"workload.global_batch_size={4096 * 512}")


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
