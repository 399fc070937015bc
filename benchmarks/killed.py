"""``python -m benchmarks killed``: sweeps that are killed at random times, and go on with the same command."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rows import Row

SIZES = 8
SWEEP = ("mlperf_dlrm_v1", "--over", f"world_size=1,2,...,{SIZES}", "--workers", "2")
"""A sweep whose sizes are simulated within a second or two each."""
FILES = ("sweep.parquet", "scaling.html")
"""Files of a sweep that hold nothing of the run itself."""
LATEST_S = 0.3
"""Longest time from a finished size to the kill, seconds: up to the next size's end or so."""
POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class Killed:
    """A sweep that was killed and then went on.

    Attributes:
        kept: number of sizes whose line was whole when it was killed.
        said: the line on stderr of the second run.
        same: whether its files equal those of an undisturbed run byte for byte.
        left: names beside its output in the end.
    """

    kept: int
    said: str
    same: bool
    left: list[str]


def kept_lines(out: Path) -> int:
    """Whole lines that an interrupted run has left beside its output."""
    try:
        return out.with_name(f".{out.name}.kept.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def started_sweep(out: Path) -> subprocess.Popen[str]:
    """A sweep in a process group of its own."""
    command = [sys.executable, "-m", "dlrmsim", "sweep", *SWEEP, "--out", str(out)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def swept(out: Path) -> str:
    """Sweep to the end; returns what it said on stderr."""
    process = started_sweep(out)
    _, said = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the sweep failed with exit code {process.returncode}:\n{said}")
    return said


def killed_sweep(out: Path, whole: Path, draws: random.Random, by: signal.Signals = signal.SIGKILL) -> Killed:
    """Kill a sweep at a random time and let it go on.

    Args:
        out: its output folder.
        whole: output folder of an undisturbed sweep.
        draws: draws the time.
        by: the signal, which the command alone receives.
    """
    lines, wait_s = draws.randrange(SIZES), draws.uniform(0.0, LATEST_S)
    process = started_sweep(out)
    while kept_lines(out) < lines and process.poll() is None:
        time.sleep(POLL_S)
    time.sleep(wait_s)
    process.send_signal(by)
    process.communicate()
    kept = kept_lines(out)
    said = swept(out)
    same = all((out / name).read_bytes() == (whole / name).read_bytes() for name in FILES)
    return Killed(kept, said, same, sorted(path.name for path in out.parent.iterdir() if path != whole))


def rows(sweeps: int, seed: int) -> Iterator[Row]:
    """Sweeps that lost a finished size, and those with another result than an undisturbed run."""
    draws = random.Random(seed)  # noqa: S311 - no secret
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, "whole")
        swept(whole)
        found = []
        for number in range(sweeps):
            beside = Path(folder, str(number))
            beside.mkdir()
            found.append(killed_sweep(beside / "out", whole, draws))
    lost = sum(killed.said.split()[1:2] != ([str(killed.kept)] if killed.kept else []) for killed in found)
    yield Row("killed_sweeps", len(found), "sweeps")
    yield Row("kept_sizes_mean", sum(killed.kept for killed in found) / len(found), "sizes")
    yield Row("computed_twice", lost, "sweeps", "<= 0")
    yield Row("other_results", sum(not killed.same for killed in found), "sweeps", "<= 0")
    yield Row("files_left", sum(killed.left != ["out"] for killed in found), "sweeps", "<= 0")
