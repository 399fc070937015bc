"""Children that work for a process, in real processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inputs.errors import RankFailedError
from trainer.launch import started_ranks
from trainer.runs import Run

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

CODES = """
import os, signal
from trainer.rank import in_child
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
print(*map(in_child, (lambda: 0, lambda: 3, kill, lambda: 1 / 0)))
"""
SLEEPS = """
import os, time
from trainer.rank import in_child
def work():
    print(os.getpid(), flush=True)
    time.sleep(60)
in_child(work)
"""


def started(script):
    return subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_a_child_tells_how_it_ended():
    told, _ = started(CODES).communicate(timeout=60)
    assert told.split() == ["0", "3", str(-signal.SIGKILL), "1"]


def test_a_child_ends_with_its_parent_however_that_ends():
    parent = started(SLEEPS)
    child = int(parent.stdout.readline())
    os.kill(child, 0)
    parent.kill()
    parent.communicate(timeout=10)
    assert ends_soon([child])


@pytest.mark.parametrize("first_dies", [False, True], ids=["ranks are ended", "a rank dies"])
def test_ranks_leave_no_children_whatever_those_do(tmp_path, first_dies):
    with started_ranks(Run(tmp_path, out=tmp_path), 2, module="tests.rank_with_child") as ranks:
        ranks.turn(lambda: len(list(tmp_path.iterdir())) == 2)
        children = [int(file.name) for file in tmp_path.iterdir()]
        assert list(map(is_running, children)) == [True, True]
        if first_dies:
            ranks.processes[0].kill()
            with pytest.raises(RankFailedError, match="rank 0 of 2 was ended by SIGKILL"):
                ranks.to_end()
    assert ends_soon(children)


def ends_soon(pids):
    """Whether none of these processes, which would go on for a minute and more, runs after ten seconds."""
    end = time.monotonic() + 10.0
    while any(map(is_running, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(is_running, pids))


def is_running(pid):
    """Whether a process is there that has not ended: nobody may wait for it where its parent has gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8") if Path("/proc").is_dir() else ""
        os.kill(pid, 0)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[:1] != ["Z"]
