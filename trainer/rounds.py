"""Trains a job under several plans by turns of a few iterations, in the same processes: ``python -m trainer.rounds``.

How fast a shared machine is changes within a second: plans are compared best when each has hardly any of it at a time,
and all have it one after the other. So every plan's model stays in memory, and nothing is made anew for a turn. The
file named in place of a scenario (`trainer.bench_rounds`) lists the folders of the plans, which take their records, and
who has its turn when.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist

from trainer.batches import Source
from trainer.bench_series import SCENARIO
from trainer.job import TrainingJob, read_job
from trainer.loop import SPARE_BYTES, environment, source_of
from trainer.model import RankModel
from trainer.pin import CoreTurns
from trainer.pipeline import TrainPipeline, make_pipeline
from trainer.rank import run_rank
from trainer.record import Recorder, write_record
from trainer.runs import Run
from trainer.yardstick import Yardstick


@dataclass(frozen=True, slots=True)
class _Plan:
    """A plan that is trained, and its record."""

    folder: Path
    pipeline: TrainPipeline
    recorder: Recorder
    cores: list[int]

    @staticmethod
    def of(folder: Path, job: TrainingJob, source: Source, run: Run, rank: int, device: torch.device) -> _Plan:
        model = RankModel(job, rank, device, repeated_weights=run.repeated_weights)
        return _Plan(folder, make_pipeline(job, model, rank, device, source, 0), Recorder(device), [])

    def turn(self, iterations: int, core: int) -> None:
        """Train so many iterations on a core, which all ranks begin together."""
        self.cores.extend([core] * iterations)
        dist.barrier()
        self.recorder.begin()
        for _ in range(iterations):
            self.recorder.end(self.pipeline.progress())


def train_by_turns(run: Run, rank: int, device: torch.device) -> None:
    """Train each plan for ``run.total`` iterations whenever it has its turn.

    In each round the yardstick is laid on, and ranks change cores.

    Raises:
        InputError: as `trainer.job.read_job`.
    """
    asked = json.loads(run.scenario.read_text(encoding="utf-8"))
    folders = [Path(name) for name in asked["folders"]]
    jobs = [read_job(folder / SCENARIO) for folder in folders]
    every = replace(run, iterations=run.total * len(asked["rounds"]))
    source = source_of(jobs[0], every, rank, device)
    plans = [_Plan.of(folder, job, source, run, rank, device) for folder, job in zip(folders, jobs, strict=True)]
    yardstick = Yardstick()
    gc.collect()
    gc.freeze()
    if device.type == "cpu":
        torch.zeros(SPARE_BYTES // 4)
    turns = CoreTurns(run.core_turns)
    for number, order in enumerate(asked["rounds"]):
        yardstick.lay_on()
        turns.go_to(number)
        for plan in order:
            plans[plan].turn(run.total, turns.core)
    for of in plans:
        columns: dict[str, Sequence[float]] = {**of.recorder.columns(), "core": of.cores}
        write_record(of.folder, rank, columns, environment(run, device), yardstick.times_s)


if __name__ == "__main__":
    sys.exit(run_rank(train_by_turns))
