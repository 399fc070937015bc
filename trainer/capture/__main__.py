"""The process that captures a job: ``python -m trainer.capture REQUEST OUT``; standard output has the progress.

It writes OUT/job.json, or OUT/refusal.json if the user's input is wrong, and leaves with 0 in both cases. It ends when
its standard input closes: the process that started it is gone.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from threading import Thread

import msgspec

from inputs.errors import InputError
from trainer.capture.processes import ORPHANED
from trainer.capture.request import JOB, REFUSAL, CaptureRequest, Refusal


def main(request_file: str, out: str) -> None:
    """Capture the job of a request file."""
    Thread(target=_end_with_parent, args=(os.dup(sys.stdin.fileno()),), daemon=True).start()
    request = msgspec.json.decode(Path(request_file).read_bytes(), type=CaptureRequest)
    progress = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the user's code may print, and so may its children

    def captured(done: int, of: int) -> None:
        print(done, of, file=progress, flush=True)

    warnings.simplefilter("ignore")  # of PyTorch and of the user's code, which no one reads here
    try:
        from trainer.capture.capture import capture

        job = capture(request, captured)
    except InputError as error:
        (Path(out) / REFUSAL).write_bytes(msgspec.json.encode(Refusal.of(error)))
        return
    (Path(out) / JOB).write_bytes(msgspec.json.encode(job))


def _end_with_parent(ends: int) -> None:
    os.read(ends, 1)
    os._exit(ORPHANED)


if __name__ == "__main__":
    main(*sys.argv[1:])
