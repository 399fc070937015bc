"""Waiting for collectives, under one name in traces: on a CPU all else is work of the rank's own thread."""

from __future__ import annotations

from torch.profiler import record_function

from trainer.exchange import Done, Started
from trainer.stopwatch import WAITING

COLLECTIVE_WAIT = "collective_wait"
"""Name of such waits in traces; `validation.host.measurement` reads it."""


def wait(work: Started) -> None:
    """Wait until a collective has ended; on a GPU its stream waits."""
    if isinstance(work, Done):
        return
    with WAITING, record_function(COLLECTIVE_WAIT):
        work.wait()
