"""Checkpoints: a folder each, complete or absent, at whatever moment the machine or a process dies.

Every rank writes its part into ``.iteration-N.partial`` and has it on the disk before it says so; then rank 0 renames
the folder to ``iteration-N``. A rename is one step, so a folder of that name has all its parts. Older checkpoints but
one go once the new one is in place. Nothing random is kept: batches are addressed by iteration.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from inputs.errors import InputError
from trainer.model import RankModel

KEPT = 2
"""Complete checkpoints that stay: the newest, and the one before in case a disk loses the newest."""
_PREFIX = "iteration-"


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of a run in a folder that all ranks see.

    Attributes:
        digest: digest of the scenario and its data; a checkpoint of others is refused.
    """

    folder: Path
    digest: str
    rank: int
    world_size: int

    def save(self, model: RankModel, iterations: int) -> None:
        """Write the state after ``iterations`` iterations; all ranks call it."""
        partial = self.folder / f".{_PREFIX}{iterations:09d}.partial"
        if self.rank == 0:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        dist.barrier()
        head = {"digest": self.digest, "world_size": self.world_size, "iterations": iterations}
        with (partial / f"rank{self.rank}.pt").open("wb") as file:
            torch.save({**head, "state": state_of(model)}, file)
            file.flush()
            os.fsync(file.fileno())
        dist.barrier()
        if self.rank == 0:
            _sync(partial)
            complete = self.folder / f"{_PREFIX}{iterations:09d}"
            if complete.exists():
                _remove(complete)
            partial.rename(complete)
            _sync(self.folder)
            for old in self._complete()[:-KEPT]:
                _remove(self.folder / old)
        dist.barrier()

    def restore(self, model: RankModel) -> int:
        """Load the newest complete checkpoint, if any; returns the iterations that were done.

        Raises:
            InputError: it is of another scenario or other data.
        """
        complete = self._complete()
        dist.barrier()
        if self.rank == 0:
            for leftover in self.folder.glob(f".{_PREFIX}*"):
                shutil.rmtree(leftover, ignore_errors=True)
        if not complete:
            return 0
        file = self.folder / complete[-1] / f"rank{self.rank}.pt"
        saved: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        if saved["digest"] != self.digest:
            raise InputError(
                "is a checkpoint of another scenario, or of other data",
                file=file.parent,
                given=saved["digest"][:8],
                expected=f"{self.digest[:8]}, or another folder",
            )
        for tensor, value in zip(state_of(model), saved["state"], strict=True):
            tensor.copy_(value)
        return int(saved["iterations"])

    def _complete(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob(f"{_PREFIX}*"))


def state_of(model: RankModel) -> list[Tensor]:
    """Everything that training changes, in a fixed order; the tensors themselves."""
    sharded = [table for tables in model.sharded.values() for table in tables]
    state = [part for table in sharded for part in (table.weight, table.optimizer.state)]
    return [model.dense.flat, *(table.weight for table in model.copied), *model.optimizer.state, *state]


def _remove(complete: Path) -> None:
    """Rename first, so that a checkpoint never stands under its name in part."""
    doomed = complete.with_name(f".{complete.name}.old")
    complete.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def _sync(folder: Path) -> None:
    """Have the entries of a folder on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
