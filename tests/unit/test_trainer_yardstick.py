"""The yardstick in a real process of one thread that has a core for itself, or shares it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from validation.yardstick import PIECES

ROOT = Path(__file__).parents[2]

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be pinned here")

LOOKS = """
import json, os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
import torch
torch.set_num_threads(1)
from trainer.yardstick import Yardstick
yardstick = Yardstick()
begin = time.perf_counter()
for _ in range(60):
    yardstick.lay_on()
print(json.dumps({"wall_s": time.perf_counter() - begin, "times_s": yardstick.times_s}))
"""


def test_a_core_that_is_shared_is_no_slower_one():
    """Beside a process that never rests the wall shows twice the time, the yardstick does not."""
    core = min(os.sched_getaffinity(0))
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(busy.pid, {core})
        looks = [sys.executable, "-c", LOOKS, str(core)]
        done = subprocess.run(looks, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    finally:
        busy.kill()
        busy.wait()
    found = json.loads(done.stdout)
    assert set(found["times_s"]) == set(PIECES), "no exchange where nobody is"
    assert {len(times) for times in found["times_s"].values()} == {60 * 5}, "also once all far rows were looked at"
    assert min(min(times) for times in found["times_s"].values()) > 0.0
    assert sum(sum(times) for times in found["times_s"].values()) < 0.75 * found["wall_s"]
