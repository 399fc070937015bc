"""Commands in processes of their own, under limits, forked from a process that has imported everything."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import pkgutil
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PACKAGES = (
    "inputs",
    "hardware_specs",
    "simulator",
    "workloads",
    "traces",
    "scenarios",
    "validation",
    "reports",
    "dlrmsim",
)
"""Rooms whose modules the parent imports; the trainer, whose PyTorch takes a GiB, stays out."""
LIBRARIES = ("pandas", "pyarrow.parquet", "pyarrow.compute", "ijson", "plotly.graph_objects", "google.protobuf.message")
CPU_S = 5
"""CPU time that a command may take, seconds."""
WALL_S = 60
"""Wall time that a command may take, seconds: the machine may be busy."""
MEMORY_BYTES = 1 << 30
"""Address space that a command may take beyond that of its parent."""
OUTPUT_BYTES = 1 << 26
"""Size that a file of a command may have."""
KEPT_BYTES = 1 << 22
"""Bytes of output that are kept."""


@dataclass(frozen=True, slots=True)
class ForkedCommand:
    """A command to run.

    Attributes:
        number: number that its result carries.
        source: folder whose copy the command runs in.
        file: file in it that has other bytes.
        data: the other bytes.
        arguments: the command line.
    """

    number: int
    source: Path
    file: str
    data: bytes
    arguments: Sequence[str]


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that ended.

    Attributes:
        number: number of the job.
        code: exit code, or minus the number of the signal that ended it.
        cpu_s: CPU time, seconds.
        out: standard output.
        err: standard error.
        new: paths that the command made, relative to its folder.
        lost: paths that it removed.
    """

    number: int
    code: int
    cpu_s: float
    out: str
    err: str
    new: frozenset[str]
    lost: frozenset[str]


def import_everything() -> None:
    """Import all modules, so that children do not, and build the command line once."""
    import typer.main

    for name in (*PACKAGES, *LIBRARIES):
        module = importlib.import_module(name)
        for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
            if name in PACKAGES and not found.name.endswith("__main__"):
                importlib.import_module(found.name)
    typer.main.get_command = functools.cache(typer.main.get_command)
    gc.collect()
    gc.freeze()


def run_all(jobs: Iterable[ForkedCommand], processes: int) -> Iterator[Ended]:
    """Run jobs, so many at a time, and yield what ends first first."""
    waiting, running = iter(jobs), dict[int, _Running]()
    limit = _address_space() + MEMORY_BYTES
    with tempfile.TemporaryDirectory() as scratch:
        while True:
            while len(running) < processes and (job := next(waiting, None)) is not None:
                started = _start(job, Path(scratch), limit)
                running[started.pid] = started
            if not running:
                return
            pid, status, usage = os.wait4(-1, 0)
            if pid in running:
                cpu_s = usage.ru_utime + usage.ru_stime
                yield _ended(running.pop(pid), os.waitstatus_to_exitcode(status), cpu_s)


@dataclass(frozen=True, slots=True)
class _Running:
    pid: int
    job: ForkedCommand
    folder: Path
    before: frozenset[str]

    def output(self, name: str) -> str:
        with Path(f"{self.folder}.{name}").open("rb") as file:
            return file.read(KEPT_BYTES).decode(errors="replace")


def _start(job: ForkedCommand, scratch: Path, limit: int) -> _Running:
    folder = scratch / str(job.number)
    shutil.copytree(job.source, folder, copy_function=os.link)
    (folder / job.file).unlink()
    (folder / job.file).write_bytes(job.data)
    before = _paths(folder)
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        _become(job.arguments, folder, limit)
    return _Running(pid, job, folder, before)


def _become(arguments: Sequence[str], folder: Path, limit: int) -> None:
    """Run the command in this process, which ends with it."""
    code = 1
    try:
        with suppress(OSError):
            os.setsid()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(WALL_S)
        for kind, most in (
            (resource.RLIMIT_CPU, CPU_S),
            (resource.RLIMIT_AS, limit),
            (resource.RLIMIT_FSIZE, OUTPUT_BYTES),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(kind, (most, most if kind != resource.RLIMIT_CPU else most + 1))
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{folder}.{name}", os.O_WRONLY | os.O_CREAT, 0o600), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        from dlrmsim.cli import main

        code = main(arguments)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _ended(running: _Running, code: int, cpu_s: float) -> Ended:
    after = _paths(running.folder)
    with suppress(ProcessLookupError):  # processes that the command left behind
        os.killpg(running.pid, signal.SIGKILL)
    out, err = running.output("out"), running.output("err")
    shutil.rmtree(running.folder, ignore_errors=True)
    for name in ("out", "err"):
        Path(f"{running.folder}.{name}").unlink(missing_ok=True)
    new, lost = after - running.before, running.before - after
    return Ended(running.job.number, code, cpu_s, out, err, frozenset(new), frozenset(lost))


def _paths(folder: Path) -> frozenset[str]:
    return frozenset(str(path.relative_to(folder)) for path in folder.rglob("*"))


def _address_space() -> int:
    """Address space of this process, bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()
