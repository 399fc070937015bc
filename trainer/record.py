"""What a rank writes down: when each iteration began and ended, its loss, and traces of the last few.

Files in the run's folder, of rank r: ``rank{r}.json`` (columns with an entry per iteration, and the rank's
environment), ``kineto/rank{r}.json.gz`` and ``et/rank{r}.json.gz``.
"""

from __future__ import annotations

import gzip
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainer.runs import Run

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]


class Recorder:
    """Times iterations; on a GPU by events on its default stream, so that nothing waits for a measurement."""

    def __init__(self, device: torch.device) -> None:
        """Nothing recorded yet."""
        self._cuda = device.type == "cuda"
        self._marks: list[Any] = []
        self._losses: list[Tensor] = []
        self._faults: list[int] = []
        self._begin_s = 0.0

    def begin(self) -> None:
        """Now the first iteration begins."""
        if self._cuda:
            torch.cuda.synchronize()
        self._begin_s = time.perf_counter()
        self._mark()

    def end(self, loss: Tensor) -> None:
        """Now an iteration has ended and the next one begins."""
        self._losses.append(loss)
        self._mark()

    def columns(self) -> dict[str, list[float]]:
        """``start_s`` and ``end_s`` on the host's monotonic clock, ``loss``, ``page_faults`` of each iteration."""
        if self._cuda:
            torch.cuda.synchronize()
            first = self._marks[0]
            times = [self._begin_s + first.elapsed_time(mark) / 1e3 for mark in self._marks]
        else:
            times = self._marks
        faults = [float(after - before) for before, after in zip(self._faults, self._faults[1:], strict=False)]
        losses = [float(loss) for loss in self._losses]
        return {"start_s": times[:-1], "end_s": times[1:], "loss": losses, "page_faults": faults}

    def _mark(self) -> None:
        if self._cuda:
            mark = torch.cuda.Event(enable_timing=True)
            mark.record()
            self._marks.append(mark)
        else:
            self._marks.append(time.perf_counter())
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
