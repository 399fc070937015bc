"""Pipelines: in which order the parts of an iteration are launched, and which batch each of them serves.

As the classes of TorchRec's train_pipelines.py and HugeCTR's model_pipeline.cpp have them (software facts, TorchRec
pipelines; HugeCTR). *Ahead* is a number of iterations: a part that is n ahead serves the batch that trains n iterations
later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from workloads.graph.framework import Pipeline

Part: TypeAlias = Literal["copy", "splits", "indices", "fill", "lookup", "forward", "backward"]
"""Copy of a batch to the device; exchange of the sizes to be sent; exchange of indices; rows brought into a cache;
lookups and the exchange of pooled vectors; dense forward; backward and optimizers."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A pipeline.

    Attributes:
        description: one line for people.
        order: parts in the order in which the host launches them.
        copy: passes ahead at which a batch is copied to the device.
        splits: passes ahead at which the exchange of its indices begins.
        indices: passes ahead at which its indices are exchanged.
        lookup: passes ahead at which its rows are looked up: the rows that it sees are so many updates old.
        fill: passes ahead at which its rows are brought into a cache.
        slots: batches there is room for on the device.
        exchanged: copies of a batch's indices in the order of their owners, all batches together. TorchRec has the
            sent, the received and the permuted copy, and one that lookups in progress keep for backward (its pull
            request 4067: "~4x permuted KJT" with overlapping batches); without overlap only the last one.
        own_input_stream: whether input_dist has a stream of its own, or the default stream.
        own_lookup_stream: whether lookups have one.
    """

    description: str
    order: tuple[Part, ...]
    copy: int = 0
    splits: int = 0
    indices: int = 0
    lookup: int = 0
    fill: int = 0
    slots: int = 2
    exchanged: int = 1
    own_input_stream: bool = True
    own_lookup_stream: bool = False

    @property
    def staleness(self) -> int:
        """Updates of the embedding tables that a lookup does not see and in turn would."""
        return self.lookup

    @property
    def batches_on_device(self) -> int:
        """Batches that are kept on the device, copied or exchanged.

        A batch whose rows are prefetched has lists of them beside its indices: it counts once more (TorchRec's
        shard_estimators.py has 3 inputs for the prefetching pipeline where sparse_dist has 2).
        """
        return self.slots + self.fill

    @property
    def exchanged_on_device(self) -> int:
        """Copies of exchanged indices, including the lists of rows of a batch with prefetched rows."""
        return self.exchanged + self.fill


SCHEDULES: dict[Pipeline, Schedule] = {
    "none": Schedule(
        "one batch after the other; the copy of the next one may run ahead",
        order=("copy", "splits", "indices", "lookup", "forward", "backward"),
        own_input_stream=False,
    ),
    "sparse_dist": Schedule(
        "input_dist of batch i+1, input copy of batch i+2 beside batch i (TorchRec TrainPipelineSparseDist)",
        order=("splits", "copy", "lookup", "forward", "indices", "backward"),
        copy=2,
        splits=1,
        indices=1,
        slots=3,
        exchanged=4,
    ),
    "inter_iteration": Schedule(
        "input copy and input_dist of batch i+1 beside batch i (HugeCTR's inter-iteration overlap)",
        order=("copy", "splits", "lookup", "forward", "indices", "backward"),
        copy=1,
        splits=1,
        indices=1,
        exchanged=2,
    ),
    "prefetch": Schedule(
        "rows of batch i+1 into the cache beside the backward pass of batch i "
        "(TorchRec PrefetchTrainPipelineSparseDist)",
        order=("copy", "indices", "lookup", "forward", "fill", "backward", "splits"),
        copy=2,
        splits=2,
        indices=1,
        fill=1,
        slots=3,
        exchanged=4,
    ),
    "fused_sparse_dist": Schedule(
        "sparse_dist with lookups on a stream of their own, beside the dense optimizer before them "
        "(TorchRec TrainPipelineFusedSparseDist)",
        order=("lookup", "splits", "copy", "forward", "indices", "backward"),
        copy=2,
        splits=1,
        indices=1,
        slots=3,
        exchanged=4,
        own_lookup_stream=True,
    ),
    "semi_sync": Schedule(
        "lookups of batch i+1 beside the dense part of batch i, before its update (TorchRec TrainPipelineSemiSync)",
        order=("splits", "forward", "copy", "lookup", "indices", "backward"),
        copy=3,
        splits=2,
        indices=2,
        lookup=1,
        slots=4,
        exchanged=5,
        own_lookup_stream=True,
    ),
}
