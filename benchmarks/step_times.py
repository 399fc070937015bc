"""Times of steps that really run on a core of this machine: ``python -m benchmarks.step_times NAME``."""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

import dlrmsim
from benchmarks import small_steps
from benchmarks.commands import ROOT
from benchmarks.rows import Row

CLUSTER = "zen5_2_cores"
"""Host that the predictions are for; `dlrmsim calibrate host` describes another one."""

WARM_UP, STEPS = 5, 25


def median_s(name: str) -> float:
    """Median seconds of a step of a model on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    step = getattr(small_steps, name)(0, 1)
    times = []
    for _ in range(WARM_UP + STEPS):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[WARM_UP:])


def rows() -> Iterator[Row]:
    """Measured and predicted time of each step, and the share of pairs of steps whose order is right."""
    measured, predicted = {}, {}
    for name in small_steps.NAMES:
        measured[name], predicted[name] = _measured_s(name), _predicted_s(name)
        yield Row(f"{name} measured", 1e3 * measured[name], "ms")
        yield Row(f"{name} predicted", 1e3 * predicted[name], "ms")
        yield Row(f"{name} error", 100.0 * (predicted[name] / measured[name] - 1.0), "%")
    pairs = list(itertools.combinations(small_steps.NAMES, 2))
    right = sum((measured[a] < measured[b]) == (predicted[a] < predicted[b]) for a, b in pairs)
    yield Row("pairs in the right order", right / len(pairs), "of pairs", ">= 0.9")


def _measured_s(name: str) -> float:
    """Time of a step in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.step_times", name]
    return float(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def _predicted_s(name: str) -> float:
    """Time of the captured step."""
    file = Path(small_steps.__file__)
    with tempfile.TemporaryDirectory() as folder:
        job, out = Path(folder) / "job", Path(folder) / "run"
        dlrmsim.capture(f"{file}:{name}", world_size=1, cluster=CLUSTER, out=job)
        return dlrmsim.run(str(job), report=False, levers=False, out=out).iteration_time_s


if __name__ == "__main__":
    sys.stdout.write(f"{median_s(sys.argv[1])}\n")
