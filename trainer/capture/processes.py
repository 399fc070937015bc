"""Ranks in processes of their own: PyTorch keeps meshes and groups of one rank in caches that another must not see."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any, TypeVar

from inputs.errors import InputError
from trainer.capture.request import Refusal
from trainer.process.pin import usable_cores

R = TypeVar("R")

ORPHANED = 70
"""Exit code of a process whose parent is gone."""

_Started = tuple[BaseProcess, Connection]


def in_processes(record: Callable[[int], R], ranks: Sequence[int], captured: Callable[[int, int], None]) -> Iterator[R]:
    """Results of a function for each rank, in order; as many processes run as there are cores.

    Args:
        captured: called after each rank with the number of results so far and of all ranks.

    Raises:
        InputError: the function refused the input.
    """
    waiting, running = list(ranks)[::-1], list[_Started]()
    done = 0
    try:
        while waiting or running:
            while waiting and len(running) < len(usable_cores()):
                running.append(_start(record, waiting.pop()))
            process, results = running.pop(0)
            found: R = _result(process, results, ranks[done])
            done += 1
            captured(done, len(ranks))
            yield found
    finally:
        for process, _ in running:
            process.kill()


def _start(record: Callable[[int], R], rank: int) -> _Started:
    """A process with PyTorch and the user's file as they are loaded here."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(record, rank, sending))
    process.start()
    sending.close()
    return process, receiving


def _run(record: Callable[[int], R], rank: int, results: Connection) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        found: R | Refusal = record(rank)
    except InputError as error:
        found = Refusal.of(error)
    results.send(found)
    results.close()


def _end_with_parent() -> None:
    """End this process as soon as the one that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(ORPHANED)


def _result(process: BaseProcess, results: Connection, rank: int) -> Any:
    try:
        found = results.recv()
    except EOFError:
        process.join()
        raise InputError(
            f"the process that captured rank {rank} ended", given=f"exit status {process.exitcode}"
        ) from None
    process.join()
    if isinstance(found, Refusal):
        raise found.error()
    return found
