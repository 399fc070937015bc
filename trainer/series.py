"""Trains one scenario after the other, one each turn: ``python -m trainer.series``.

The file named in place of a scenario (`trainer.bench_series`) lists folders: each has a scenario and takes its record.
On CPUs each is trained in a process of its own, as jobs are: one that has trained others is slower
(`docs/decisions/127`). That is a child of one that has loaded PyTorch, which takes longer than to train.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from trainer.bench_series import SCENARIO, done_file
from trainer.job import read_job
from trainer.loop import train
from trainer.rank import begun, do_part, in_child, own_rank
from trainer.runs import Run
from trainer.turns import wait_for_turn


def train_each(run: Run) -> int:
    """Train one scenario after the other as ``run`` says, each when it is this group's turn; returns an exit code."""
    for number, name in enumerate(json.loads(run.scenario.read_text(encoding="utf-8"))):
        wait_for_turn()
        folder = Path(name)
        meeting = run.rendezvous.with_name(f"{run.rendezvous.name}_{number}") if run.rendezvous else None
        one = replace(run, scenario=folder / SCENARIO, out=folder, rendezvous=meeting)
        code = do_part(_train, one) if run.device == "cuda" else in_child(partial(do_part, _train, one))
        if code < 0:
            os.kill(os.getpid(), -code)  # as the child ended
        if code:
            return code
        done_file(folder, own_rank()).touch()
    return 0


def _train(run: Run, rank: int, device: torch.device) -> None:
    train(read_job(run.scenario), run, rank, device)
    if device.type == "cuda":  # the next one trains in the same process, and others on the same GPU
        gc.unfreeze()
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(train_each(begun()))
