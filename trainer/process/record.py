"""Records of a rank: begin and end of each iteration, its loss, and traces of the last few.

Files in the run's folder, of rank r: ``rank{r}.json`` (columns with an entry per iteration, and the rank's
environment), ``timed/rank{r}.json.gz``,
``kineto/rank{r}.json.gz`` and ``et/rank{r}.json.gz``.
"""

from __future__ import annotations

import gzip
import json
import shutil
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.profiler import profile as autograd_profile

from trainer.process.runs import SESSION, SESSION_STARTS, Run
from trainer.stopwatch import ISSUING, WAITING

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]


FAST = 1
"""Compression level of gzip."""
PENDING = 1000
"""Marks and losses that are kept as they are; then they become numbers, for which a GPU is waited for once."""


class TrainerRecorder:
    """Times iterations; on a GPU by events on its default stream, so that hardly anything waits for a measurement.

    Two events give the time between them in milliseconds as fp32: taken from one to the next and added up, not from the
    first one, that is exact to nanoseconds however long a run is.
    """

    def __init__(self, device: torch.device) -> None:
        """Nothing recorded yet."""
        self._cuda = device.type == "cuda"
        self._marks: list[Any] = []
        self._training: list[bool] = []  # whether an iteration lies between a mark and the one before it
        self._losses: list[Tensor] = []
        self._times_s, self._loss_values = array("d"), array("d")
        self._faults, self._cpu_s, self._process_s = array("q"), array("d"), array("d")
        self._collectives_s, self._collectives_cpu_s, self._calls_s = array("d"), array("d"), array("d")

    def begin(self) -> None:
        """Now an iteration begins; what lies between it and the end of the one before counts for neither."""
        if not self._times_s:
            if self._cuda:
                torch.cuda.synchronize()
            self._times_s.append(time.perf_counter())
        self._training.append(False)
        self._mark()

    def end(self, loss: Tensor) -> None:
        """Now an iteration has ended and the next one begins."""
        self._losses.append(loss)
        self._training.append(True)
        self._mark()
        if len(self._losses) >= PENDING:
            self._settle()

    def columns(self) -> dict[str, list[float]]:
        """Measurements of each iteration.

        ``start_s`` and ``end_s`` on the host's monotonic clock, ``loss``, ``page_faults``, ``cpu_s``, what the rank's
        own thread had of a core, ``process_s``, what all its threads had, and ``collectives_s``, in which its own
        thread issued collectives and waited for them; ``collectives_cpu_s`` is what it had of a core in that time,
        ``calls_s`` the part of it in which it issued them.
        """
        self._settle()
        ends = [place for place, training in enumerate(self._training) if training]

        def during(values: Sequence[float]) -> list[float]:
            return [values[place] - values[place - 1] for place in ends]

        return {
            "start_s": [self._times_s[place - 1] for place in ends],
            "end_s": [self._times_s[place] for place in ends],
            "loss": self._loss_values.tolist(),
            "page_faults": during(self._faults),
            "cpu_s": during(self._cpu_s),
            "process_s": during(self._process_s),
            "collectives_s": during(self._collectives_s),
            "collectives_cpu_s": during(self._collectives_cpu_s),
            "calls_s": during(self._calls_s),
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
        self._process_s.append(time.process_time())
        self._collectives_s.append(ISSUING.total_s + WAITING.total_s)
        self._collectives_cpu_s.append(ISSUING.cpu_s + WAITING.cpu_s)
        self._calls_s.append(ISSUING.total_s)
        self._faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else 0)


def write_record(
    folder: Path,
    rank: int,
    columns: Mapping[str, Sequence[float]],
    environment: dict[str, Any],
    yardstick_s: Sequence[float],
) -> None:
    """Write the record of a rank, the last of its files: others may wait for it."""
    text = json.dumps({"iterations": columns, "environment": environment, "yardstick_s": yardstick_s})
    partial = folder / f"rank{rank}.partial"
    partial.write_text(text, encoding="utf-8")
    partial.rename(folder / f"rank{rank}.json")


@contextmanager
def tracing(
    run: Run, stage: str, rank: int, device: torch.device
) -> Iterator[Sessions | torch.profiler.profile | None]:
    """Trace the iterations of a stage where it is to be; call ``step`` after each.

    ``timed``: operators alone, in ``timed/rank{r}.json.gz``, a few iterations at a time.
    ``profiled``: with shapes and an execution trace, which takes two to three times as long and touches new memory.
    """
    if stage in ("warm_up", "measured"):
        yield None
        return
    if run.out is None:
        raise ValueError("traces need a folder")
    with _timed(run, rank, device) if stage == "timed" else _profiled(run, rank, device) as profile:
        yield profile


@contextmanager
def _timed(run: Run, rank: int, device: torch.device) -> Iterator[Sessions]:
    """Sessions of few iterations; the one in which the profiler itself starts is not written."""
    folder = _folder(run, "timed")
    sessions = Sessions(lambda number: folder / f"rank{rank}.{number}.json", cuda=device.type == "cuda")
    yield sessions
    sessions.end()
    _join(sessions.files, folder / f"rank{rank}.json")


class Sessions:
    """Sessions of the profiler, each with an iteration before it in which it lays down what the last one left.

    Its own loop, not ``torch.profiler.profile``'s: that loads the compiler first, which takes seconds.
    """

    def __init__(self, file_of: Callable[[int], Path], *, cuda: bool) -> None:
        """Start before the first iteration.

        Args:
            file_of: the file of a session by its number.
            cuda: whether kernels of a GPU are traced, too.
        """
        self.files: list[Path] = []
        self._file_of, self._cuda, self._iteration = file_of, cuda, 0
        self._profile: Any = None
        self._mark: Any = None
        self._begin()

    def step(self) -> None:
        """An iteration has ended and the next one begins."""
        self.end()
        self._iteration += 1
        self._begin()

    def end(self) -> None:
        """No further iteration belongs to the one that has begun."""
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None
        if self._profile is not None and _last_of_session(self._iteration):
            self._profile.__exit__(None, None, None)
            if self._iteration >= SESSION_STARTS:
                self.files.append(self._file_of(len(self.files)))
                self._profile.export_chrome_trace(str(self.files[-1]))
            self._profile = None

    def _begin(self) -> None:
        if not _is_recorded(self._iteration):
            return
        if self._profile is None:
            self._profile = autograd_profile(use_device="cuda" if self._cuda else None, use_kineto=True)
            self._profile.__enter__()
        self._mark = torch.profiler.record_function(f"ProfilerStep#{self._iteration}")
        self._mark.__enter__()


def _is_recorded(iteration: int) -> bool:
    """Whether one of the timed iterations is part of a session."""
    start = iteration < SESSION_STARTS
    return (iteration if start else (iteration - SESSION_STARTS) % (1 + SESSION)) > 0


def _last_of_session(iteration: int) -> bool:
    return _is_recorded(iteration) and not _is_recorded(iteration + 1)


def _join(parts: Sequence[Path], whole: Path) -> None:
    """One compressed trace of several of one process, whose clocks agree."""
    joined: dict[str, Any] = {}
    for part in parts:
        found = json.loads(part.read_text(encoding="utf-8"))
        joined = {**found, "traceEvents": [*joined.get("traceEvents", ()), *found["traceEvents"]]}
        part.unlink()
    whole.write_text(json.dumps(joined), encoding="utf-8")
    _pack(whole)


@contextmanager
def _profiled(run: Run, rank: int, device: torch.device) -> Iterator[torch.profiler.profile]:
    """The first iteration warms the profiler up and is left out."""
    activity, observer = torch.profiler.ProfilerActivity, torch.profiler.ExecutionTraceObserver()
    kinds = [activity.CPU, activity.CUDA] if device.type == "cuda" else [activity.CPU]
    execution = _folder(run, "et")
    raw = execution / f"rank{rank}.json"
    observer.register_callback(str(raw))
    with torch.profiler.profile(
        activities=kinds,
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=run.profiled, repeat=1),
        record_shapes=True,
        execution_trace_observer=observer,
    ) as profile:
        yield profile
    trace = _folder(run, "kineto") / f"rank{rank}.json"
    profile.export_chrome_trace(str(trace))
    _pack(trace)
    _pack(raw)


def _pack(raw: Path) -> None:
    """Compress a file; PyTorch does it line by line and takes ten times as long."""
    with raw.open("rb") as plain, gzip.open(f"{raw}.gz", "wb", compresslevel=FAST) as packed:
        shutil.copyfileobj(plain, packed, 2**20)
    raw.unlink()


def _folder(run: Run, name: str) -> Path:
    """A folder beside the record, there when this returns."""
    if run.out is None:
        raise ValueError("traces need a folder")
    folder = run.out / name
    folder.mkdir(exist_ok=True)
    return folder
