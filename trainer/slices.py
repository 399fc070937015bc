"""How long the system lets one of two busy processes work before the other: ``python -m trainer.slices CORE SECONDS``.

Needs no PyTorch.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from trainer.pin import pin

GAP_S = 2e-4
"""A clock that goes on by more between two looks at it was another's meanwhile."""
FEWEST = 5
"""Slices that say something."""


def slice_s(core: int, seconds: float = 1.0) -> float:
    """The median length of a slice on a core on which two processes are busy for so long; 0 where it cannot be told.

    They are in sessions of their own, as ranks are: Linux may divide a core between sessions.
    """
    if not hasattr(os, "sched_setaffinity"):
        return 0.0
    command = [sys.executable, "-m", "trainer.slices", str(core), str(seconds)]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)  # noqa: S603
        for _ in range(2)
    ]
    told = [process.communicate()[0] for process in both]
    if any(process.returncode for process in both):
        return 0.0
    found = [each for text in told for each in json.loads(text)]
    return statistics.median(found) if len(found) >= FEWEST else 0.0


def _busy(core: int, seconds: float) -> Sequence[float]:
    """Lengths of the times in which nobody else worked, without the first and the last, which others did not end."""
    pin([core])
    begin = now = started = time.perf_counter()
    lengths = []
    while now - begin < seconds:
        before, now = now, time.perf_counter()
        if now - before > GAP_S:
            lengths.append(before - started)
            started = now
    return lengths[1:]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_busy(int(sys.argv[1]), float(sys.argv[2]))))
