"""A worker that the system ends is reported in one message, not as a fault of ours."""

from __future__ import annotations

import os
import signal

import pytest

from dlrmsim.workers import workers_map
from inputs.errors import WorkerDiedError


def killed(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_killed_worker_is_one_message() -> None:
    with pytest.raises(WorkerDiedError, match=r"ended from outside.*use fewer"):
        list(workers_map(None, 2, 2)(killed, [1, 2]))
