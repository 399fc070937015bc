"""How much the cores of this machine differ by chance, over windows of 5 ms to seconds: ``python -m benchmarks paces``.

A process on each core multiplies and gathers, about 1 ms at a time, and notes its CPU time. Of the logarithm of that
over the core's median, averaged over windows, the rows tell the spread of the difference between two cores over the
root of 2: of windows in all the time (``spread``), which is what `hardware_specs.cpu_kernels` calls the spread of a
core's pace, and between windows in a row (``allan``: alike for all windows where each octave of time has its part).
The law is what the spread of the shortest windows makes of the others by `CpuKernels.spread`, less what lasts longer
than the measurement.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from benchmarks.rows import Row
from hardware_specs.cpu_kernels import LASTING_S
from inputs.errors import InputError
from simulator.operators import FloatArray
from trainer.pin import pin, usable_cores

SECONDS = 30.0
WINDOW_S = 5e-3
"""The shortest; each next one is twice as long."""
FEWEST = 8
"""Windows that a spread is told of."""
SIZE, ROWS, WIDTH, LOOKUPS = 192, 2**17, 64, 2**12
"""Of the products, of the table, and of what is gathered at once: more than a core's own cache holds."""
STARTS_S = 2.0
"""For all processes to start."""


def rows(seconds: float = SECONDS) -> Iterator[Row]:
    """Spread of the paces of cores by the length of windows, per cent.

    Args:
        seconds: that all cores are kept busy.

    Raises:
        InputError: the machine has one core.
    """
    cores = usable_cores()
    if len(cores) < 2:
        raise InputError("cores differ from others", given=len(cores), expected="a machine with two cores or more")
    paces = [_windows(noted) for noted in _noted(cores, seconds)]
    count = min(map(len, paces))
    pairs = [(one[:count] - other[:count]) / np.sqrt(2.0) for one, other in combinations(paces, 2)]
    shortest, length = 0.0, 1
    while count // length >= FEWEST:
        window_s = WINDOW_S * length
        averaged = [pair[: count // length * length].reshape(-1, length).mean(axis=1) for pair in pairs]
        spread = float(np.mean([np.std(pair) for pair in averaged]))
        shortest = shortest or spread
        name = f"{1e3 * window_s:.0f}_ms"
        yield Row(f"spread_{name}", 100.0 * spread, "%")
        yield Row(f"law_{name}", 100.0 * shortest * _law(window_s, seconds) / _law(WINDOW_S, seconds), "%")
        yield Row(f"allan_{name}", 100.0 * float(np.mean([_between(pair) for pair in averaged])), "%")
        length *= 2


def _law(window_s: float, seconds: float) -> float:
    """What the spread of a core's pace goes with, over windows within `LASTING_S` or the measurement."""
    return float(np.sqrt(np.log2(1.0 + min(LASTING_S, seconds) / window_s)))


def _between(values: FloatArray) -> float:
    """Root of half the mean square of the difference between values in a row (the Allan deviation)."""
    return float(np.sqrt(np.mean(np.diff(values) ** 2) / 2.0))


def _noted(cores: Sequence[int], seconds: float) -> list[FloatArray]:
    """Of each core when each piece of work began, from the start on, and its CPU time ``[pieces, 2]``, seconds."""
    start = time.time() + STARTS_S
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    commands = [[sys.executable, "-m", "benchmarks.paces", str(core), str(start), str(seconds)] for core in cores]
    running = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True, env=environment) for each in commands]
    found = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError("a process that keeps a core busy ended with an error")
    return [np.array(json.loads(each)) for each in found]


def _windows(noted: FloatArray) -> FloatArray:
    """Logarithm of a core's CPU time of a piece over its median, the mean in each of the shortest windows."""
    window = (noted[:, 0] / WINDOW_S).astype(np.int64)
    paces = np.log(noted[:, 1] / np.median(noted[:, 1]))
    held, place = np.unique(window, return_inverse=True)
    means = np.bincount(place, weights=paces) / np.bincount(place)
    return np.interp(np.arange(held[-1] + 1), held, means)


def _work(core: int, start: float, seconds: float) -> list[tuple[float, float]]:
    pin([core])
    random = np.random.default_rng(core)
    factor, product = random.random((SIZE, SIZE), np.float32), np.empty((SIZE, SIZE), np.float32)
    table, gathered = np.ones((ROWS, WIDTH), np.float32), np.empty((LOOKUPS, WIDTH), np.float32)
    looked_up = random.integers(ROWS, size=LOOKUPS)
    time.sleep(max(0.0, start - time.time()))
    begin, noted = time.perf_counter(), list[tuple[float, float]]()
    while (now := time.perf_counter() - begin) < seconds:
        before = time.thread_time()
        np.matmul(factor, factor, out=product)
        np.take(table, looked_up, axis=0, out=gathered)
        noted.append((now, time.thread_time() - before))
    return noted


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_work(int(sys.argv[1]), *map(float, sys.argv[2:]))))
