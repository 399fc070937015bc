"""Commands in a terminal of 80 columns: every column and every digit is there; piped lines end without blanks."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.command import installed_command
from tests.trace_files import two_ranks, write_ranks

COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "run": (["run", "zionex_a_128", "--no-report", "--out", "run", "--set", "cost.gpu_hour_usd=2"], ["cost", "bound"]),
    "check": (["run", "zionex_a_128", "--check"], ["rank-tasks"]),
    "sweep": (
        ["sweep", "zionex_a_128", "--over", "nodes=4,8,64", "--out", "sweep", "--set", "cost.gpu_hour_usd=2"],
        ["GPUs", "nodes", "iteration", "throughput", "efficiency", "$/M samples", "bound", "notes"],
    ),
    "plan": (
        ["plan", "mlperf_dlrm_v1", "--set", "nodes=2", "--set", "workload.sharding.steps=2", "--compare"],
        ["rank", "HBM", "DDR", "perf", "lookup", "update", "output", "input", "input bytes", "output bytes", "shards",
         "planner", "fullest HBM", "perf max / mean", "KL divergence"],
    ),
    "collective": (
        ["collective", "dgx_h100", "--op", "all_reduce", "--ranks", "8", "--bytes", "1MiB..8MiB"],
        ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "algorithm", "protocol", "limited by"],
    ),
    "validate": (
        ["validate", "v100_nccl"],
        ["case", "metric", "measured", "spread", "predicted", "error", "grade", "role", "median |error|", "why"],
    ),
    "list": (["list"], ["clusters", "dgx_h100"]),
    "import": (
        ["import", "rank0.json", "rank1.json"],
        ["rank", "step", "length", "compute", "exposed comm", "waiting", "exposed copy", "idle", "idle: host"],
    ),
    "replay": (["replay", "rank0.json", "rank1.json", "--delay", "1=20us"], ["mean step", "measured", "replayed"]),
    "compare": (["compare", "rank0.json", "rank1.json"], ["per iteration and rank", "rank0.json", "change"]),
}  # fmt: skip
"""Commands with what their output names: headers of every table."""


def in_terminal(arguments: list[str], folder: Path) -> str:
    """Output of a command in a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "LINES": "50", "TERM": "dumb", "NO_COLOR": "1"}
    with subprocess.Popen(
        [installed_command(), *arguments], cwd=folder, env=environment, stdout=theirs, stderr=subprocess.DEVNULL
    ) as process:
        os.close(theirs)
        told = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the terminal is closed when the command ends
                break
            if not part:
                break
            told += part
        os.close(ours)
        assert process.wait() == 0
    return told.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_cut_at_80_columns_and_nothing_is_padded_in_a_pipe(name: str, tmp_path: Path) -> None:
    write_ranks(tmp_path, two_ranks())
    arguments, headers = COMMANDS[name]
    shown = re.sub(r"\x1b\[[0-9;]*m", "", in_terminal(arguments, tmp_path))
    piped = subprocess.run(
        [installed_command(), *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    for header in headers:
        assert re.search(rf"(^|\s){re.escape(header)}", shown), f"{header} is not in the terminal"
        assert header in piped, f"{header} is not in the pipe"
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    paths = ("  report  ", "  results  ")
    assert [line for line in shown.split("\n") if len(line) > 80 and not line.startswith(paths)] == []
    assert [line for line in piped.split("\n") if line != line.rstrip()] == []
    numbers = re.findall(r"[+-]?\d[\d,.]*", piped)
    assert [number for number in numbers if number not in shown] == []
