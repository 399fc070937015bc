"""What a rank writes down: when each iteration began and ended, its loss, and traces of the last few.

Files in the run's folder, of rank r: ``rank{r}.json`` (columns with an entry per iteration, and the rank's
environment), ``kineto/rank{r}.json.gz`` and ``et/rank{r}.json.gz``.
"""

from __future__ import annotations

import gzip
import json
import shutil
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainer.runs import Run

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]


PENDING = 1000
"""Marks and losses that are kept as they are; then they become numbers, for which a GPU is waited for once."""


class Recorder:
    """Times iterations; on a GPU by events on its default stream, so that hardly anything waits for a measurement.

    Events tell the time between two of them in milliseconds as fp32: taken from one to the next and added up, not from
    the first one, that is exact to nanoseconds however long a run is.
    """

    def __init__(self, device: torch.device) -> None:
        """Nothing recorded yet."""
        self._cuda = device.type == "cuda"
        self._marks: list[Any] = []
        self._losses: list[Tensor] = []
        self._times_s, self._loss_values = array("d"), array("d")
        self._faults, self._cpu_s = array("q"), array("d")

    def begin(self) -> None:
        """Now the first iteration begins."""
        if self._cuda:
            torch.cuda.synchronize()
        self._times_s.append(time.perf_counter())
        self._mark()

    def end(self, loss: Tensor) -> None:
        """Now an iteration has ended and the next one begins."""
        self._losses.append(loss)
        self._mark()
        if len(self._losses) >= PENDING:
            self._settle()

    def columns(self) -> dict[str, list[float]]:
        """What is known of each iteration.

        ``start_s`` and ``end_s`` on the host's monotonic clock, ``loss``, ``page_faults``, and ``cpu_s``, what the
        rank's own thread had of a core.
        """
        self._settle()
        faults = [float(after - before) for before, after in pairwise(self._faults)]
        cpu_s = [after - before for before, after in pairwise(self._cpu_s)]
        times = self._times_s.tolist()
        return {
            "start_s": times[:-1],
            "end_s": times[1:],
            "loss": self._loss_values.tolist(),
            "page_faults": faults,
            "cpu_s": cpu_s,
        }

    def _settle(self) -> None:
        """Turn marks and losses into numbers; the last mark stays, the next time is taken from it."""
        if self._cuda:
            torch.cuda.synchronize()
        for before, after in pairwise(self._marks):
            taken_s = before.elapsed_time(after) / 1e3 if self._cuda else after - before
            self._times_s.append(self._times_s[-1] + taken_s)
        del self._marks[:-1]
        self._loss_values.extend(float(loss) for loss in self._losses)
        self._losses.clear()

    def _mark(self) -> None:
        if self._cuda:
            mark = torch.cuda.Event(enable_timing=True)
            mark.record()
            self._marks.append(mark)
        else:
            self._marks.append(time.perf_counter())
        self._cpu_s.append(time.thread_time())
        self._faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else 0)


def write_record(folder: Path, rank: int, columns: dict[str, list[float]], environment: dict[str, Any]) -> None:
    """Write what was recorded of a rank."""
    text = json.dumps({"iterations": columns, "environment": environment})
    (folder / f"rank{rank}.json").write_text(text, encoding="utf-8")


@contextmanager
def profiler(run: Run, rank: int, device: torch.device) -> Iterator[torch.profiler.profile]:
    """Trace iterations; call ``step`` after each. The first one warms the profiler up and is left out."""
    if run.out is None:
        raise ValueError("traces need a folder")
    kineto, execution = run.out / "kineto", run.out / "et"
    for folder in (kineto, execution):
        folder.mkdir(exist_ok=True)
    observer = torch.profiler.ExecutionTraceObserver()
    raw = execution / f"rank{rank}.json"
    observer.register_callback(str(raw))
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(
        activities=activities,
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=run.profiled, repeat=1),
        record_shapes=True,
        execution_trace_observer=observer,
    ) as profile:
        yield profile
    profile.export_chrome_trace(str(kineto / f"rank{rank}.json.gz"))
    with raw.open("rb") as plain, gzip.open(execution / f"rank{rank}.json.gz", "wb") as packed:
        shutil.copyfileobj(plain, packed)
    raw.unlink()
