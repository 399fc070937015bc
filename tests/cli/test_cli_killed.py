"""Commands that are killed: nothing finished is computed again, nothing is left, and the result is the same."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.killed import Killed, kept_lines, killed_sweep, started_sweep, swept
from tests.waiting import soon

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted in /proc")


def of_group(group: int) -> list[str]:
    """States of the processes of a process group that have not ended."""
    states = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            states.append(fields[0])
    return states


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """Output of an undisturbed sweep."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert swept(out) == ""
    return out


def check(killed: Killed) -> None:
    taken = f"dlrmsim: {killed.kept} result{'s' if killed.kept > 1 else ''} of an interrupted run taken over"
    assert killed.said.startswith(taken) if killed.kept else killed.said == ""
    assert killed.same
    assert killed.left == ["out"]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_sweep_goes_on_with_every_size_that_was_finished(whole, tmp_path, seed):
    """`python -m benchmarks killed` does the same twenty times."""
    check(killed_sweep(tmp_path / "out", whole, random.Random(seed)))


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGHUP"])
def test_workers_end_with_their_parent(tmp_path, name):
    out = tmp_path / "out"
    process = started_sweep(out)
    assert soon(lambda: kept_lines(out) >= 1, seconds=60.0)
    assert len(of_group(process.pid)) >= 3
    process.send_signal(getattr(signal, name))
    _, said = process.communicate(timeout=60)
    assert soon(lambda: not of_group(process.pid), seconds=2.0)
    assert [path.name for path in tmp_path.iterdir()] == [".out.kept.jsonl"]
    if name == "SIGKILL":
        return
    assert process.returncode == 130
    kept = kept_lines(out)
    plural = "s are" if kept > 1 else " is"
    assert said == f"dlrmsim: interrupted; {kept} finished result{plural} kept: the same command goes on from there\n"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_before_anything_is_finished_leaves_nothing(tmp_path, name):
    command = [sys.executable, "-m", "dlrmsim", "sweep", "zionex_a_128", "--over", "nodes=256,512", "--workers", "2"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "out")], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert soon(lambda: len(of_group(process.pid)) >= 3, seconds=60.0)
    process.send_signal(getattr(signal, name))
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "dlrmsim: interrupted; nothing was written\n")
    assert list(tmp_path.iterdir()) == []
    assert soon(lambda: not of_group(process.pid), seconds=2.0)


def test_a_command_that_ignores_hang_ups_goes_on(tmp_path):
    """As ``nohup`` starts it: the signal that it ignores interrupts nothing."""

    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    command = [sys.executable, "-m", "dlrmsim", "run", "mlperf_dlrm_v1", "--no-report", "--no-levers", "--out", "out"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, preexec_fn=ignore, stdout=subprocess.DEVNULL)  # noqa: PLW1509
    assert soon(lambda: "/zlib." in Path(f"/proc/{process.pid}/maps").read_text(), seconds=60.0)
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=60) == 0
    assert (tmp_path / "out" / "summary.json").is_file()
