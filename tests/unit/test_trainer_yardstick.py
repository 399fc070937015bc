"""The yardstick in a real process of one thread that has a core for itself, or shares it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be pinned here")

LOOKS = """
import json, os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
import torch
torch.set_num_threads(1)
from trainer.process.yardstick import Yardstick
yardstick = Yardstick()
begin = time.perf_counter()
for _ in range(30):
    yardstick.look()
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
    assert len(found["times_s"]) == 30 * 5, "five steps a look, also once all rows were looked up"
    assert min(found["times_s"]) > 0.0
    assert sum(found["times_s"]) < 0.75 * found["wall_s"]


def test_gradients_of_a_small_step_reach_all_that_is_trained(monkeypatch):
    """Were they not multiplied by 0, rows that are looked up and every layer would change."""
    import torch

    from trainer.process.yardstick import FEATURES, POOLING, SAMPLES, SmallStep

    monkeypatch.setattr("trainer.process.yardstick.UNCHANGED", 1.0)
    table, drawn = torch.full((1000, 16), 0.5), torch.arange(SAMPLES * FEATURES * POOLING) % 500
    step = SmallStep(table, drawn)
    before = [parameters.clone() for parameters in (*step._weights, *step._biases)]
    step()
    assert (table[:500] != 0.5).any(dim=1).all()
    assert (table[500:] == 0.5).all(), "nobody looked these up"
    assert not any(map(torch.equal, before, (*step._weights, *step._biases)))


def test_a_small_step_is_the_same_at_all_times():
    """It goes through all it does, round and round the rows it is given, and nothing comes of it."""
    import torch

    from trainer.process.yardstick import FEATURES, POOLING, SAMPLES, SmallStep

    lookups = SAMPLES * FEATURES * POOLING
    table, drawn = torch.rand(1000, 16), torch.randint(1000, (3 * lookups,), generator=torch.Generator().manual_seed(2))
    before, read = table.clone(), []
    step = SmallStep(table, drawn)

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, called, types, args=(), kwargs=None):
            if called is torch.nn.functional.embedding_bag and args[1] is table:
                read.append(args[0].clone())
            return called(*args, **(kwargs or {}))

    with Watch():
        for _ in range(4):
            step()
    assert torch.equal(table, before)
    again = [*drawn.view(3, lookups), drawn[:lookups]]
    assert [torch.equal(*pair) for pair in zip(read, again, strict=True)] == [True] * 4
