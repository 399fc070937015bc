"""Keeps the cores of ranks awake while they wait for each other. Needs no PyTorch.

A virtual machine's core that sleeps is woken up by its host, which takes as long as a short message does; and a host
that sees cores of a machine wake each other moves them under one cache, where lookups of both slow each other
(`docs/decisions/129`). So each core has a process of the lowest class, which takes the time that nobody else asks for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from signal import SIGKILL
from typing import NoReturn

LOOPS = 50_000
"""Between two looks at where the rank is, and whether it is there: a millisecond."""


@contextmanager
def kept_awake(cores: int) -> Iterator[bool]:
    """Processes that keep cores of this one awake until this is left, or this process has ended, however it did.

    They follow it where it goes to other cores. Within its session they give way to it at once: such a process must not
    be of another session, nor on a core with ranks of others, for systems divide cores among sessions first.

    Args:
        cores: how many it is on; 0: none is kept awake.

    Yields:
        Whether they are kept awake; systems other than Linux have no such class.
    """
    if not cores or not hasattr(os, "SCHED_IDLE"):
        yield False
        return
    keepers = [_started(number) for number in range(cores)]
    try:
        yield True
    finally:
        for keeper in keepers:
            os.kill(keeper, SIGKILL)
            os.waitpid(keeper, 0)


def _started(number: int) -> int:
    """A child that keeps one of this process's cores awake: by its place among them."""
    rank = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        _keep_awake(rank, number)
    finally:
        os._exit(1)


def _keep_awake(rank: int, number: int) -> NoReturn:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    mine = -1
    while os.getppid() == rank:
        cores = sorted(os.sched_getaffinity(rank))
        if cores[number % len(cores)] != mine:
            mine = cores[number % len(cores)]
            os.sched_setaffinity(0, {mine})
        for _ in repeat(None, LOOPS):  # without an instruction that tells the host to let another run
            pass
    os._exit(0)
