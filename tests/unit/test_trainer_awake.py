"""Processes that keep cores awake, real ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import is_running, soon
from trainer.awake import kept_awake

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="the system has no lowest class")

KEEPS = """
import os, time
from trainer.awake import kept_awake
with kept_awake(1):
    print(*open(f"/proc/self/task/{os.getpid()}/children").read().split(), flush=True)
    time.sleep(60)
"""


def children():
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def test_each_core_has_one_which_gives_way_and_follows():
    cores = sorted(os.sched_getaffinity(0))
    before = set(children())
    with kept_awake(len(cores)) as awake:
        keepers = sorted(set(children()) - before)
        assert awake
        assert len(keepers) == len(cores)
        assert soon(lambda: all(os.sched_getscheduler(keeper) == os.SCHED_IDLE for keeper in keepers))
        assert soon(lambda: [os.sched_getaffinity(keeper) for keeper in keepers] == [{core} for core in cores])
        try:
            os.sched_setaffinity(0, {cores[-1]})
            assert soon(lambda: all(os.sched_getaffinity(keeper) == {cores[-1]} for keeper in keepers))
        finally:
            os.sched_setaffinity(0, cores)
    assert not any(map(is_running, keepers))


def test_nobody_is_started_for_no_core():
    before = children()
    with kept_awake(0) as awake:
        assert not awake
        assert children() == before


def test_they_end_with_their_process_however_that_ends():
    parent = subprocess.Popen([sys.executable, "-c", KEEPS], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    (keeper,) = map(int, parent.stdout.readline().split())
    os.kill(keeper, 0)
    parent.kill()
    parent.communicate(timeout=10)
    assert soon(lambda: not is_running(keeper))
