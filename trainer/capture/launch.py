"""Starts the process that captures a job, and reads the recording it writes. Needs no PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from inputs.errors import RankFailedError
from trainer.capture.request import JOB, REFUSAL, CaptureRequest, Refusal
from workloads.captured.job_file import read_job
from workloads.captured.records import RecordedJob

MAX_DETAILS = 10_000
"""Characters of the process's own words in an error: the last ones."""


def run_capture(request: CaptureRequest, captured: Callable[[int, int], None]) -> RecordedJob:
    """Capture a job in another process, so that replaced names of PyTorch do not reach this one.

    Args:
        captured: called after each rank with the number of ranks so far and the expected number.

    Raises:
        InputError: the user's file, function or step is wrong.
        RankFailedError: the process died.
    """
    with tempfile.TemporaryDirectory(prefix="dlrmsim-capture-") as name:
        folder = Path(name)
        (folder / "request.json").write_bytes(msgspec.json.encode(request))
        code = _run(folder, captured)
        if (folder / REFUSAL).is_file():
            raise msgspec.json.decode((folder / REFUSAL).read_bytes(), type=Refusal).error()
        if code or not (folder / JOB).is_file():
            log = (folder / "log").read_text(encoding="utf-8", errors="replace")
            raise RankFailedError(f"the process that captures ended with {code}\n{log[-MAX_DETAILS:].rstrip()}")
        return read_job(folder / JOB)


def _run(folder: Path, captured: Callable[[int, int], None]) -> int:
    """Run the process to its end; returns its exit code."""
    packages = str(Path(__file__).parents[2])
    paths = os.pathsep.join([packages, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-P", "-m", "trainer.capture", str(folder / "request.json"), str(folder)]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(  # noqa: S603 - our own module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        ) as process,
    ):
        try:
            for line in process.stdout or ():  # standard input stays open: the process ends when it closes
                done, _, of = line.partition(" ")
                captured(int(done), int(of))
            return process.wait()
        except BaseException:
            process.kill()
            raise
