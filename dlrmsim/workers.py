"""Workers: processes of this machine, or a dask cluster."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process

from inputs.errors import InputError, MissingExtraError, WorkerDiedError
from scenarios.mapping import Item, Map, Result, one_after_the_other

_DASK = "dask://"
ORPHANED = 70
"""Exit code of a worker whose parent has gone; nobody is left to read it."""
STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals that may interrupt this process: `dlrmsim.__main__`."""


def workers_map(executor: str | None, workers: int | None, items: int) -> Map:
    """Processes that do the work: the dask cluster ``executor``, or ``workers`` processes (default: one per core)."""
    if executor is not None:
        return _Dask(executor)
    count = min(workers or os.cpu_count() or 1, items)
    return _Processes(count) if count > 1 else one_after_the_other


@dataclass(frozen=True, slots=True)
class _Processes:
    """Worker processes of this machine; an interrupt ends them all, and so does the end of this process."""

    count: int

    def __call__(self, function: Callable[[Item], Result], items: Sequence[Item], /) -> Iterator[tuple[int, Result]]:
        spawned = get_context("spawn")
        with ProcessPoolExecutor(self.count, mp_context=spawned, initializer=_end_with_parent) as pool:
            try:
                with _interrupts_held():
                    # from the end: where sizes ascend, the last take longest
                    futures = {pool.submit(function, items[n]): n for n in reversed(range(len(items)))}
                for future in as_completed(futures):
                    yield futures[future], future.result()
            except BrokenProcessPool:
                raise WorkerDiedError(
                    "a worker process was ended from outside, most often because the memory is full; "
                    "expected memory for all --workers: use fewer"
                ) from None
            except BaseException:
                _end(pool)
                raise


def _end_with_parent() -> None:
    """Have this worker end as soon as its parent has gone, however that went: a killed one stops nobody."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()  # the end of a pipe that only the parent holds: no polling
        os._exit(ORPHANED)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold interrupts back while workers start.

    Workers inherit that Ctrl-C is blocked, which reaches them in a terminal, too: it is the parent's alone to handle.
    Another thread of the parent may still receive a signal, and Python would raise here, half-way through a start: so
    it is noted and raised after.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    noted: list[int] = []
    numbers = [getattr(signal, name) for name in STOPPING]
    handlers = {number: handler for number in numbers if callable(handler := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, lambda number, _: noted.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if noted:
        raise KeyboardInterrupt


def _end(pool: ProcessPoolExecutor) -> None:
    """End workers at once instead of waiting for their work."""
    for process in list((pool._processes or {}).values()):  # noqa: SLF001 - public from Python 3.14 (kill_workers)
        process.kill()
    pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Dask:
    """A dask cluster whose workers have dlrmsim installed."""

    address: str

    def __call__(self, function: Callable[[Item], Result], items: Sequence[Item], /) -> Iterator[tuple[int, Result]]:
        if not self.address.startswith(_DASK):
            raise InputError("not an executor", file="--executor", given=self.address, expected="dask://HOST:PORT")
        try:
            from distributed import Client
            from distributed import as_completed as done
        except ImportError:
            raise MissingExtraError("dask is not installed: pip install 'dlrmsim[cluster]'") from None
        try:
            client = Client(f"tcp://{self.address.removeprefix(_DASK)}", timeout="10s")
        except (OSError, ValueError) as error:
            message, expected = f"no dask scheduler answers: {error}", "the address of one, dask://HOST:PORT"
            raise InputError(message, file="--executor", given=self.address, expected=expected) from None
        with client:
            futures = {client.submit(function, item, pure=False): n for n, item in enumerate(items)}
            for future in done(futures):
                yield futures[future], future.result()
