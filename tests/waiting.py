"""Waiting in tests for what other processes do, which may have to wait for a core."""

import os
import time
from collections.abc import Callable
from pathlib import Path


def soon(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether something holds within so many seconds."""
    end = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(0.02)
    return held


def is_running(pid: int) -> bool:
    """Whether a process is there that has not ended: nobody may wait for it where its parent has gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8") if Path("/proc").is_dir() else ""
        os.kill(pid, 0)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[:1] != ["Z"]
