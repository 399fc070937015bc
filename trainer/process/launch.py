"""Starts the ranks of one host, watches them, and ends all when one dies. Needs no PyTorch.

Ranks find each other through a file, so no port has to be chosen; gloo and NCCL let the system pick theirs. Each rank
is a session of its own, so that Ctrl-C reaches the launcher alone, which ends them and their children; and each waits
on its standard input, which closes when the launcher is gone, however it went.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from inputs.errors import InputError, RankFailedError
from trainer.process.launcher_turns import TURN
from trainer.process.pin import shares, usable_cores
from trainer.process.runs import Run

POLL_S = 0.02
"""Period at which the launcher polls its ranks, seconds: seldom enough to cost the ranks' cores nothing."""

KILLED_S = 10.0
"""Longest time that killed processes may take to close their files, seconds: others may have their cores."""

MAX_DETAILS = 10_000
"""Characters of a rank's own words in an error: the last ones."""

SPINS, SPIN_MS = 10**7, 100
"""Time that a thread spins for its next kernel, in spins (GNU OpenMP) and in milliseconds (LLVM's): longer than gaps of
an iteration."""

ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
"""glibc keeps freed memory and serves large requests from it, as allocators do that PyTorch's performance tuning guide
recommends (jemalloc, TCMalloc). Otherwise the system maps temporaries above 32 MB in each iteration and clears their
pages, which costs more than some of the work on them."""


def run_ranks(run: Run, world_size: int, cores: Sequence[int] | None = None, module: str = "trainer") -> None:
    """Run all ranks on this host to their end; takes the arguments and raises the errors of `started_ranks`."""
    with started_ranks(run, world_size, cores, module) as ranks:
        ranks.to_end()


@contextmanager
def started_ranks(
    run: Run, world_size: int, cores: Sequence[int] | None = None, module: str = "trainer"
) -> Iterator[Ranks]:
    """Ranks on this host, which are ended when this is left.

    Args:
        cores: cores that the ranks share; all that this process may use when None.

    Raises:
        InputError: a rank refused the input.
        RankFailedError: a rank failed or was killed; all others were ended.
    """
    with tempfile.TemporaryDirectory(prefix="dlrmsim-ranks-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for rank, share in enumerate(shares(cores or usable_cores(), world_size)):
                processes.append(_start(replace(run, cores=share), rank, world_size, folder, module))
            yield Ranks(processes, folder)
        finally:
            _end(processes)


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks that were started, and the folder of their logs."""

    processes: Sequence[subprocess.Popen[bytes]]
    folder: Path

    def to_end(self) -> None:
        """Wait for all of them; raises as `started_ranks`."""
        while not self._all_ended():
            time.sleep(POLL_S)

    def turn(self, done: Callable[[], bool]) -> None:
        """Let waiting ranks (`launcher_turns`) go on until ``done``; raises as `started_ranks`."""
        for process in self.processes:
            if process.stdin is None:
                raise ValueError("ranks receive turns through their standard input")
            with suppress(BrokenPipeError):  # it has ended: that is found below
                process.stdin.write(TURN)
        while not done() and not self._all_ended():
            time.sleep(POLL_S)

    def _all_ended(self) -> bool:
        """Whether all have ended well; raises as soon as one has failed."""
        codes = [process.poll() for process in self.processes]
        failed = [rank for rank, code in enumerate(codes) if code]
        if failed:
            raise _failure(_first_failure(failed, self.folder), codes, self.folder)
        return all(code == 0 for code in codes)


def _start(run: Run, rank: int, world_size: int, folder: Path, module: str = "trainer") -> subprocess.Popen[bytes]:
    supervised = replace(run, rendezvous=folder / "rendezvous", supervised=True)
    with (folder / f"rank{rank}.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", module, *supervised.arguments()],
            env=_environment(rank, world_size, len(run.cores)),
            stdin=subprocess.PIPE,
            bufsize=0,  # input that a dead rank did not read would be flushed when its input is closed
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _environment(rank: int, world_size: int, threads: int) -> Mapping[str, str]:
    """The environment of a rank; what the user has set stands.

    Threads that wait for the next kernel spin: where each had to be woken up, two took as long as one. They stop after
    `SPINS`, so that ranks that wait for their turn take nothing from others.
    """
    packages = str(Path(__file__).parents[2])
    paths = [packages, *filter(None, [os.environ.get("PYTHONPATH")])]
    spinning = {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": str(SPINS), "KMP_BLOCKTIME": str(SPIN_MS)}
    defaults = {"OMP_NUM_THREADS": str(threads), **(spinning if threads > 1 else {}), **ALLOCATOR, **_loopback()}
    return {
        **defaults,
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
    }


def _loopback() -> dict[str, str]:
    """Keep gloo on the loopback interface: the ranks share a host, whatever its name resolves to."""
    names = [name for _, name in socket.if_nameindex() if name in {"lo", "lo0"}]
    return {"GLOO_SOCKET_IFNAME": names[0]} if names else {}


def _first_failure(failed: Sequence[int], folder: Path) -> int:
    """The rank whose failure was its own: one that no peer reported."""
    own = [rank for rank in failed if not _left_error(folder, rank).get("reported_by_peer", False)]
    return (own or failed)[0]


def _failure(rank: int, codes: Sequence[int | None], folder: Path) -> InputError | RankFailedError:
    code, left = codes[rank] or 0, _left_error(folder, rank)
    if left.get("code") == InputError.exit_code:
        return InputError(f"rank {rank}: {left['message']}")
    why = f"failed: {left.get('message', f'exit code {code}')}"
    if code < 0:
        why = f"was ended by {signal.Signals(-code).name}" + (" (out of memory?)" if -code == signal.SIGKILL else "")
    log = (folder / f"rank{rank}.log").read_text(encoding="utf-8", errors="replace")
    details = (left.get("traceback") or log).rstrip()[-MAX_DETAILS:]
    return RankFailedError(
        "\n".join(filter(None, [f"rank {rank} of {len(codes)} {why}", details, "all ranks were ended"]))
    )


def _left_error(folder: Path, rank: int) -> dict[str, Any]:
    """Error file of a failed rank, if it wrote one."""
    try:
        found: dict[str, Any] = json.loads((folder / f"rank{rank}.error").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Kill running processes: a rank has nothing to tidy up, its files are whole or not at all.

    A rank that has died may have left children (`trainer.process.rank.in_child`): so its process group is killed, and
    has let go of its files when this returns, or has had `KILLED_S` for it.
    """
    for process in processes:
        if process.poll() is None:
            process.kill()
        if process.stdin is not None and not _unread(process.stdin):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # has members, so its number is nobody else's
    end = time.monotonic() + KILLED_S
    for process in processes:
        process.wait()
        if process.stdin is not None:
            _unread(process.stdin, max(0.0, end - time.monotonic()))
            process.stdin.close()


def _unread(pipe: IO[bytes], wait_s: float = 0.0) -> bool:
    """Whether no process has the other end of this pipe any more: a rank's children have its standard input too.

    Known on Linux, where alone ranks have children that outlive them by more than a moment.
    """
    if sys.platform != "linux":
        return True
    ends = select.poll()
    ends.register(pipe, 0)  # the loss of the reader is reported without a request
    return bool(ends.poll(1e3 * wait_s))
