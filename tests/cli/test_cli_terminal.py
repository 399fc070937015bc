"""Commands in a terminal of 80 columns: every column and every digit is there; piped lines end without blanks."""

from __future__ import annotations

import io
import os
import pty
import re
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from dlrmsim.cli import main
from tests.trace_files import two_ranks, write_ranks

COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "run": (
        ["run", "mlperf_dlrm_v1", "--no-report", "--out", "run", "--set", "cost.gpu_hour_usd=2"], ["cost", "bound"],
    ),
    "check": (["run", "mlperf_dlrm_v1", "--check"], ["rank-tasks"]),
    "sweep": (
        ["sweep", "mlperf_dlrm_v1", "--over", "world_size=1,16,256", "--set", "cluster=zionex",
         "--workers", "1", "--out", "sweep", "--set", "cost.gpu_hour_usd=2"],
        ["GPUs", "nodes", "iteration", "throughput", "efficiency", "$/M samples", "bound", "notes"],
    ),
    "sweep of several keys": (
        ["sweep", "mlperf_dlrm_v1", "--over", "world_size=1,2", "--over", "precision.dense=fp16,fp32",
         "--over", "workload.sharding.planner=greedy,row_wise", "--set", "cluster=zionex", "--workers", "1",
         "--out", "sweep"],
        ["fp16, greedy", "fp32, row_wise", "GPUs", "efficiency", "throughput, samples/s", "fastest"],
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


def in_terminal(arguments: list[str], patch: pytest.MonkeyPatch) -> str:
    """Output of a command in a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    told: list[bytes] = []

    def listen() -> None:
        with suppress(OSError):  # the terminal is closed when the command ends
            while part := os.read(ours, 65536):
                told.append(part)

    listener = Thread(target=listen)
    listener.start()
    with patch.context() as terminal, os.fdopen(theirs, "w", encoding="utf-8") as stdout:
        for name, value in {"COLUMNS": "80", "LINES": "50", "TERM": "dumb", "NO_COLOR": "1"}.items():
            terminal.setenv(name, value)
        terminal.setattr(sys, "stdout", stdout)
        assert main(arguments) == 0
    listener.join()
    os.close(ours)
    return b"".join(told).decode().replace("\r\n", "\n")


def in_pipe(arguments: list[str], patch: pytest.MonkeyPatch) -> str:
    """Output of a command to what is no terminal."""
    with patch.context() as pipe, io.TextIOWrapper(io.BytesIO(), encoding="utf-8") as stdout:
        pipe.setattr(sys, "stdout", stdout)
        assert main(arguments) == 0
        stdout.flush()
        told: bytes = stdout.buffer.getvalue()  # type: ignore[attr-defined]
        return told.decode()


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_cut_at_80_columns_and_nothing_is_padded_in_a_pipe(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ranks(tmp_path, two_ranks())
    monkeypatch.chdir(tmp_path)
    arguments, headers = COMMANDS[name]
    shown = re.sub(r"\x1b\[[0-9;]*m", "", in_terminal(arguments, monkeypatch))
    piped = in_pipe(arguments, monkeypatch)
    for header in headers:
        assert re.search(rf"(^|\s){re.escape(header)}", shown), f"{header} is not in the terminal"
        assert header in piped, f"{header} is not in the pipe"
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    paths = ("  report  ", "  results  ")
    assert [line for line in shown.split("\n") if len(line) > 80 and not line.startswith(paths)] == []
    assert [line for line in piped.split("\n") if line != line.rstrip()] == []
    measured = re.compile(r"^  time .*", re.MULTILINE)  # predicted from the time that placing the job took
    numbers = re.findall(r"[+-]?\d[\d,.]*", measured.sub("", piped))
    assert [number for number in numbers if number not in shown] == []
