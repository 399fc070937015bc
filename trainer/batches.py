"""Batches, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

IntArray = npt.NDArray[np.int64]
PREPARED_LOOKUPS = 4_000_000
"""Lookups of a rank for which batches are made beforehand: about half a second's work, and rows of 64 MB or more."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One rank's samples of an iteration.

    Attributes:
        dense: dense features ``[B, F]``, fp32.
        labels: 0 or 1 ``[B]``, fp32.
        lengths: lookups of each sample for each feature ``[K, B]``.
        values: rows looked up, feature after feature, sample after sample.
        starts: begin of each feature's values ``[K + 1]``, on the host.
    """

    dense: Tensor
    labels: Tensor
    lengths: Tensor
    values: Tensor
    starts: tuple[int, ...]

    def of_feature(self, feature: int) -> Tensor:
        """Rows looked up for one feature."""
        return self.values[self.starts[feature] : self.starts[feature + 1]]

    def to(self, device: torch.device) -> Batch:
        """The batch on a device; itself when it is there."""
        if self.dense.device == device:
            return self
        dense, labels, lengths, values = (part.to(device, non_blocking=True) for part in self.tensors)
        return Batch(dense, labels, lengths, values, self.starts)

    def pinned(self) -> Batch:
        """The batch in pages from which a GPU copies beside other work."""
        dense, labels, lengths, values = (part.pin_memory() for part in self.tensors)
        return Batch(dense, labels, lengths, values, self.starts)

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """All tensors."""
        return self.dense, self.labels, self.lengths, self.values


class BatchSource(Protocol):
    """Source of a rank's batches."""

    def batch(self, iteration: int) -> Batch:
        """This rank's part of an iteration's batch; the same whenever it is asked for."""
        ...


class PreparedBatches:
    """The first ``count`` batches of a source, made beforehand and taken in turn: no time goes into making them."""

    def __init__(self, source: BatchSource, count: int, *, pin: bool) -> None:
        """Make the batches."""
        made = [source.batch(iteration) for iteration in range(count)]
        self._batches = [batch.pinned() for batch in made] if pin else made

    def __len__(self) -> int:
        """Batches made."""
        return len(self._batches)

    def batch(self, iteration: int) -> Batch:
        """The batch whose turn it is."""
        return self._batches[iteration % len(self._batches)]


def prepared_count(least: int, iterations: int, lookups: float) -> int:
    """Number of batches to make beforehand.

    One that comes again finds rows in caches where a new one would not, the more the smaller it is: so there are as
    many as iterations, or as have `PREPARED_LOOKUPS`, at least ``least``.

    Args:
        lookups: lookups of a rank in an iteration.
    """
    return max(least, min(iterations, int(PREPARED_LOOKUPS / max(lookups, 1.0))))


def batch_from_arrays(
    dense: npt.NDArray[np.float64],
    labels: npt.NDArray[np.float64],
    lengths: list[IntArray],
    values: list[IntArray],
    *,
    index_bytes: int,
    length_bytes: int,
) -> Batch:
    """A batch in the framework's number formats.

    Args:
        dense: ``[B, F]``.
        labels: ``[B]``.
        lengths: ``[B]`` of each feature.
        values: rows of each feature.
    """
    starts = np.cumsum([0, *(len(of_feature) for of_feature in values)])
    kinds = {4: np.int32, 8: np.int64}
    return Batch(
        dense=torch.from_numpy(dense.astype(np.float32)),
        labels=torch.from_numpy(labels.astype(np.float32)),
        lengths=torch.from_numpy(np.stack(lengths).astype(kinds[length_bytes])),
        values=torch.from_numpy(np.concatenate(values).astype(kinds[index_bytes])),
        starts=tuple(starts.tolist()),
    )
