"""Turns of ranks that wait for one another's groups: a byte on their standard input. Needs no PyTorch."""

from __future__ import annotations

import os
import sys
from threading import Semaphore

TURN = b"."
"""Byte that the launcher writes for each turn."""
_given = Semaphore(0)


def wait_for_turn() -> None:
    """Wait until the launcher lets this rank go on."""
    _given.acquire()


def read_turns() -> None:
    """Take turns as they come, until standard input closes, which it does however the launcher ends."""
    while read := os.read(sys.stdin.fileno(), 1024):  # not sys.stdin.read: its lock would hold up the interpreter's end
        _given.release(len(read))
