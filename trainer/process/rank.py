"""A process of the trainer: its cores, its process group, its children, and the handling of its errors.

Rank, number of ranks and meeting point come from torchrun's environment variables. A rank that fails leaves
``rank{r}.error`` beside the rendezvous file for the launcher: the error, and whether only a peer reported it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from trainer.process.launcher_turns import read_turns
from trainer.process.pin import pin
from trainer.process.runs import Run, parse

if TYPE_CHECKING:  # loading PyTorch takes seconds, and a wrong command line none
    import torch

ORPHANED = 70
"""Exit code of a rank whose launcher has gone; nobody is left to read it."""

GRACE_S = 5.0
"""A rank that lost a peer lets the launcher hear the peer first; after this it ends by itself, seconds."""

LOST_PEER = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "gloo/transport", "NCCL")
"""Texts in messages of collectives when another rank has ended."""


Work: TypeAlias = Callable[[Run, int, "torch.device"], None]
"""Work of every rank (its run, number and device) in the process group."""


def run_rank(work: Work) -> int:
    """Let this process do its part of ``work``, with the command line's run; returns its exit code."""
    return do_part(work, begun())


def begun() -> Run:
    """The command line's run, in a process that has its cores and ends with its launcher."""
    run = parse()
    if run.supervised:
        threading.Thread(target=_end_with_launcher, daemon=True).start()
    if run.cores:
        pin(run.cores)  # before PyTorch starts its threads, which stay where the first one is
    return run


def do_part(work: Work, run: Run) -> int:
    """Do this process' part of ``work`` in a process group of its own, which ends with it.

    Returns:
        An exit code; an error is left for the launcher, or printed where there is none.
    """
    rank = own_rank()
    try:
        _do(work, run, rank)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the launcher has to know
        return _report(run, rank, error)
    return 0


def own_rank() -> int:
    """The rank of this process."""
    return int(os.environ.get("RANK", "0"))


def in_child(work: Callable[[], int]) -> int:
    """Have a child of this process work, which begins as this one is now and ends with it.

    PyTorch may be loaded, but must not have been used: a child has none of its threads.

    Returns:
        The child's exit code, which is what ``work`` returns, 1 where that raises; ``-N`` where signal N ended it.
    """
    ends, held = os.pipe()
    child = os.fork()
    if not child:
        os.close(held)
        threading.Thread(target=_end_with_parent, args=(ends,), daemon=True).start()
        code = 1
        try:
            code = work()
        finally:
            os._exit(code)
    os.close(ends)
    _, status = os.waitpid(child, 0)
    os.close(held)
    return os.waitstatus_to_exitcode(status)


def _do(work: Work, run: Run, rank: int) -> None:
    import torch
    import torch.distributed as dist

    if run.out is not None:
        run.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(max(1, len(run.cores)) if run.cores else torch.get_num_threads())
    torch.set_num_interop_threads(1)
    device = torch.device("cpu")
    if run.device == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if run.device == "cuda" else "gloo",
        device_id=device if run.device == "cuda" else None,
        init_method="env://" if run.rendezvous is None else run.rendezvous.absolute().as_uri(),
        rank=rank,
        world_size=int(os.environ.get("WORLD_SIZE", "1")),
    )
    try:
        work(run, rank, device)
        dist.barrier()
    finally:
        dist.destroy_process_group()


def _report(run: Run, rank: int, error: BaseException) -> int:
    """Leave the error for the launcher, or print it where there is none."""
    code = getattr(error, "exit_code", 1)
    reported_by_peer = isinstance(error, RuntimeError) and any(words in str(error) for words in LOST_PEER)
    text = "" if code == 2 else "".join(traceback.format_exception(error))
    if run.rendezvous is None:
        sys.stderr.write(text or f"python -m trainer: {error}\n")
        return int(code)
    name = type(error).__name__
    found = {"code": code, "message": str(error) if code == 2 else f"{name}: {error}", "traceback": text}
    file = run.rendezvous.parent / f"rank{rank}.error"
    file.with_suffix(".partial").write_text(
        json.dumps({**found, "reported_by_peer": reported_by_peer}), encoding="utf-8"
    )
    file.with_suffix(".partial").rename(file)
    if reported_by_peer:
        time.sleep(GRACE_S)
    return int(code)


def _end_with_launcher() -> NoReturn:
    """Take turns until the launcher's end of standard input closes."""
    read_turns()
    os._exit(ORPHANED)


def _end_with_parent(ends: int) -> NoReturn:
    """Wait until the parent's end of a pipe closes, however that ends."""
    os.read(ends, 1)
    os._exit(ORPHANED)
