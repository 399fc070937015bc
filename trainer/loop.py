"""The training loop of a rank."""

from __future__ import annotations

import hashlib
import os
from itertools import groupby
from typing import Any

import torch
import torch.distributed as dist

from trainer.batches import BatchSource, PreparedBatches, prepared_count
from trainer.checkpoint import Checkpoints
from trainer.criteo import Criteo
from trainer.job import TrainingJob
from trainer.model import RankModel
from trainer.pipeline import make_pipeline
from trainer.process.launch import ALLOCATOR
from trainer.process.pin import usable_cores
from trainer.process.record import TrainerRecorder, tracing, write_record
from trainer.process.runs import Run
from trainer.process.steal_time import StolenTime
from trainer.process.yardstick import Yardstick
from trainer.synthetic import Synthetic


def train(job: TrainingJob, run: Run, rank: int, device: torch.device) -> None:
    """Train as ``run`` says; the process group is there already.

    Raises:
        InputError: the data do not fit the model, or the checkpoint the scenario.
    """
    source = source_of(job, run, rank, device)
    model = RankModel(job, rank, device, repeated_weights=run.repeated_weights)
    checkpoints = _checkpoints(job, run, rank)
    first = checkpoints.restore(model) if checkpoints else 0
    pipeline = make_pipeline(job, model, rank, device, source, first)
    recorder, yardstick = TrainerRecorder(device), Yardstick() if run.yardstick_every else None
    dist.barrier()
    recorder.begin()
    stolen: dict[str, float] = {}
    for stage, iterations in groupby(range(first, run.total), run.stage):
        with tracing(run, stage, rank, device) as profile:
            since = StolenTime(usable_cores())
            for iteration in iterations:
                if yardstick and run.looks_before(iteration):
                    _look(yardstick, recorder)
                recorder.end(pipeline.progress())
                if profile is not None:
                    profile.step()
                if checkpoints and run.checkpoint_every and (iteration + 1) % run.checkpoint_every == 0:
                    checkpoints.save(model, iteration + 1)
            if yardstick and stage == "measured":
                _look(yardstick, recorder)
            stolen[stage] = since.share()
    if run.out is not None:
        batches = len(source) if isinstance(source, PreparedBatches) else 0
        shares = {f"stolen_{name}": stolen.get(name, 0.0) for name in ("measured", "timed")}
        found = {"first_iteration": first, "prepared_batches": batches, **shares, **environment(run, device)}
        write_record(run.out, rank, recorder.columns(), found, yardstick.times_s if yardstick else [])


def _look(yardstick: Yardstick, recorder: TrainerRecorder) -> None:
    """Look at the yardstick between two iterations, for which no rank makes another one wait."""
    dist.barrier()  # a rank that still trains on a shared core needs it
    yardstick.look()
    dist.barrier()  # a rank that begins the next iteration early would wait in it
    recorder.begin()


def _checkpoints(job: TrainingJob, run: Run, rank: int) -> Checkpoints | None:
    """Checkpoints in the run's folder; they belong to the scenario, and to the file of clicks where there is one."""
    if run.checkpoints is None:
        return None
    data = "" if run.data is None else f"\n{run.data.name} {run.data.stat().st_size}"
    digest = hashlib.sha256(f"{job.scenario.hash}{data}".encode()).hexdigest()
    return Checkpoints(run.checkpoints, digest, rank, job.world_size)


def environment(run: Run, device: torch.device) -> dict[str, Any]:
    """Hardware and software of a rank."""
    pinned = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {
        "torch": torch.__version__,
        "backend": dist.get_backend(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "asked_cores": list(run.cores),
        "cores": pinned,
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkl": torch.backends.mkl.is_available(),
        "mkldnn": torch.backends.mkldnn.is_available(),
        "allocator": {name: os.environ.get(name) for name in ALLOCATOR},
    }


def source_of(job: TrainingJob, run: Run, rank: int, device: torch.device) -> BatchSource:
    """Source of a rank's batches.

    Raises:
        InputError: a file of clicks does not fit the model.
    """
    source: BatchSource = Criteo(run.data, job, rank) if run.data else Synthetic(job, rank)
    if not run.prepared:
        return source
    lookups = job.settings.local_batch_size * float(job.plan.tables.lookups_per_sample.sum())
    return PreparedBatches(source, prepared_count(run.prepared, run.total, lookups), pin=device.type == "cuda")
