"""One rank of the trainer: ``python -m trainer SCENARIO ...`` as torchrun or `trainer.process.launch` starts it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.process.rank import run_rank
from trainer.process.runs import Run

if TYPE_CHECKING:
    import torch


def _train(run: Run, rank: int, device: torch.device) -> None:
    import torch.distributed as dist

    from trainer.job import read_job
    from trainer.loop import train

    job = read_job(run.scenario)
    _check_world(job.world_size, dist.get_world_size(), run.scenario)
    train(job, run, rank, device)


def _check_world(planned: int, started: int, scenario: Path) -> None:
    from inputs.errors import InputError

    if planned != started:
        raise InputError("the plan is for another number of ranks", file=scenario, given=started, expected=str(planned))


if __name__ == "__main__":
    sys.exit(run_rank(_train))
