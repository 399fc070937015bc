"""Trains one scenario after the other in the same processes, one each turn: ``python -m trainer.series``.

The file named in place of a scenario (`trainer.bench_series`) lists folders: each has a scenario and takes its record.
"""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

from trainer.bench_series import SCENARIO
from trainer.job import read_job
from trainer.loop import train
from trainer.rank import run_rank
from trainer.runs import Run
from trainer.turns import wait_for_turn


def train_each(run: Run, rank: int, device: torch.device) -> None:
    """Train one scenario after the other as ``run`` says, each when it is this group's turn."""
    for name in json.loads(run.scenario.read_text(encoding="utf-8")):
        wait_for_turn()
        folder = Path(name)
        file = folder / SCENARIO
        train(read_job(file), replace(run, scenario=file, out=folder), rank, device)
        gc.unfreeze()
        gc.collect()
        if device.type == "cuda":  # others train on it next
            torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(run_rank(train_each))
