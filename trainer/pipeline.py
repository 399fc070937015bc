"""Software pipelines: which batch is copied and distributed while another one trains (TorchRec train_pipelines.py)."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.profiler import record_function

from trainer.batches import Batch, BatchSource
from trainer.devices import SideStream
from trainer.input_dist import InputDist, SplitsInFlight, ValuesInFlight
from trainer.job import TrainingJob
from trainer.model import RankModel
from workloads.graph.framework import Pipeline


class _Input:
    """Copies and distributes batches in turn, beside the default stream where there is one."""

    def __init__(self, job: TrainingJob, rank: int, device: torch.device, source: BatchSource, iteration: int) -> None:
        own = job.settings.framework.input_process_group.value == "own"
        group = dist.new_group() if own else None
        self._dist = InputDist(job, rank, device, group)
        self._source, self._next, self._device = source, iteration, device
        self._memcpy = SideStream(device)
        self._stream = SideStream(device, priority=-1, used=job.settings.pipeline != "none")

    def copy(self) -> Batch:
        """Take the next batch and start to copy it to the device."""
        batch = self._source.batch(self._next)
        self._next += 1
        with record_function("input_copy"), self._memcpy.running():
            return batch.to(self._device)

    def start(self, batch: Batch) -> SplitsInFlight | Batch:
        """Start input_dist of a copied batch."""
        with record_function("input_dist_splits"), self._stream.running():
            self._memcpy.join(batch.tensors)
            return self._dist.start(batch)

    def finish(self, splits: SplitsInFlight | Batch) -> ValuesInFlight:
        """Wait for its splits, send its indices."""
        with record_function("input_dist_values"), self._stream.running():
            return self._dist.finish(splits)

    def train(self, model: RankModel, values: ValuesInFlight, between: Callable[[], None] | None = None) -> Tensor:
        """Train a batch whose indices are under way."""
        with record_function("input_dist_wait"):
            with self._stream.running():
                batch = self._dist.wait(values)
            self._stream.join(batch.tensors)
        return model.train(batch, between)


class WithoutPipeline:
    """Copy, input_dist, training of one batch, then the next."""

    def __init__(self, model: RankModel, batches: _Input) -> None:
        """Nothing is under way yet."""
        self._model, self._input = model, batches

    def progress(self) -> Tensor:
        """One iteration."""
        batch = self._input.copy()
        return self._input.train(self._model, self._input.finish(self._input.start(batch)))


class SparseDist:
    """While batch i trains, the indices of i+1 are exchanged and i+2 is copied (TrainPipelineSparseDist)."""

    def __init__(self, model: RankModel, batches: _Input) -> None:
        """Fill the pipeline: the first batch is distributed, the second copied."""
        self._model, self._input = model, batches
        self._values = batches.finish(batches.start(batches.copy()))
        self._copied = batches.copy()

    def progress(self) -> Tensor:
        """One iteration."""
        values = self._values
        splits = self._input.start(self._copied)
        self._copied = self._input.copy()

        def distribute() -> None:
            self._values = self._input.finish(splits)

        return self._input.train(self._model, values, distribute)


def make_pipeline(
    job: TrainingJob, model: RankModel, rank: int, device: torch.device, source: BatchSource, iteration: int
) -> WithoutPipeline | SparseDist:
    """The scenario's pipeline (`trainer.job.read_job` refuses others), from the batch of ``iteration`` on."""
    kinds: dict[Pipeline, type[WithoutPipeline | SparseDist]] = {"none": WithoutPipeline, "sparse_dist": SparseDist}
    return kinds[job.settings.pipeline](model, _Input(job, rank, device, source, iteration))
