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
    found = [length for lengths in keep_busy([core, core], seconds) for length in lengths]
    return statistics.median(found) if len(found) >= FEWEST else 0.0


def keep_busy(cores: Sequence[int], seconds: float) -> list[Sequence[float]]:
    """Keep cores busy, each with a process in a session of its own, one for each time that it is named.

    Returns:
        Of each process the times in which nobody else had its core, seconds; nothing where one did not end well.
    """
    running = [
        subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "trainer.slices", str(core), str(seconds)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for core in cores
    ]
    told = [process.communicate()[0] for process in running]
    return [] if any(process.returncode for process in running) else [json.loads(text) for text in told]


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
