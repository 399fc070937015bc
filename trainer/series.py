"""Trains one scenario after the other in the same processes: ``python -m trainer.series``, for calibration.

The file named in place of a scenario (`trainer.bench_series`) lists folders: each has a scenario and takes its record.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from trainer.bench_series import SCENARIO
from trainer.job import read_job
from trainer.loop import train
from trainer.rank import run_rank
from trainer.runs import Run


def train_each(run: Run, rank: int, device: torch.device) -> None:
    """Train one scenario after the other as ``run`` says, until there is none left or the time is up."""
    series, begin = json.loads(run.scenario.read_text(encoding="utf-8")), time.perf_counter()
    for name in series["folders"]:
        late = torch.tensor([float(time.perf_counter() - begin > series["seconds"])])
        dist.all_reduce(late, dist.ReduceOp.MAX)
        if late.item():
            break
        folder = Path(name)
        file = folder / SCENARIO
        train(read_job(file), replace(run, scenario=file, out=folder), rank, device)
        gc.unfreeze()
        gc.collect()


if __name__ == "__main__":
    sys.exit(run_rank(train_each))
