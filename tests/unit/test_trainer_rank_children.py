"""Children that work for a process, in real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inputs.errors import RankFailedError
from tests.waiting import is_running, soon
from trainer.process.launch import started_ranks
from trainer.process.runs import Run

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

CODES = """
import os, signal
from trainer.process.rank import in_child
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
print(*map(in_child, (lambda: 0, lambda: 3, kill, lambda: 1 / 0)))
"""
SLEEPS = """
import os, time
from trainer.process.rank import in_child
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
    assert soon(lambda: not is_running(child))


@pytest.mark.skipif(sys.platform != "linux", reason="only there it is seen who still reads what ranks are told")
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
    assert soon(lambda: not any(map(is_running, children))), "they would go on for ten minutes"
