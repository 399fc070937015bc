"""Settings of a DLRM job on parameter servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from inputs.errors import InputError
from workloads.dlrm.laws.index_laws import UNIFORM_LAW, Law
from workloads.dlrm.model.choices import SINGLE_PRECISION, Optimizer, PrecisionChoice
from workloads.dlrm.model.settings import DlrmSettings
from workloads.graph.framework import Framework

Placement: TypeAlias = Literal["bytes", "lookups"]
"""Amount that servers of tables share evenly: bytes of tables, or bytes that a batch looks up in them."""

THREAD_GROUPS = 2
"""Groups of a trainer's threads; the threads of a group compute and exchange in step."""

MOST_WAVES = 4
"""Waves of equal trainers, in step within a wave."""

SYNC_EVERY = 5
"""Iterations of a trainer from one exchange of its dense parameters to the next (sync gap of EASGD in ShadowSync, Zheng
et al., arXiv 2003.03477, recalled: 5 and 30)."""

DECODE_BYTES_PER_S = 50e6
"""Bytes of a batch that a core of a reader decodes in a second (assumed)."""


@dataclass(frozen=True, slots=True)
class PsSettings:
    """A job: ranks are the trainers, then servers of tables, servers of dense parameters, and readers.

    Attributes:
        trainers: servers that train, each one copy of the dense parameters.
        sparse_servers: servers of embedding tables.
        dense_servers: servers of the dense parameters; 0: trainers do not exchange them.
        readers: servers that read batches; 0: batches are always there.
        threads: threads of a trainer, each with a batch of its own.
        batch_per_thread: samples of it.
        cores: cores of a rank.
        sync_every: iterations from one exchange of a trainer's dense parameters to the next.
        decode_bytes_per_s: bytes of a batch that a core of a reader decodes in a second.
        slow_ranks: ranks whose kernels take longer.

    Raises:
        InputError: an impossible size, or several trainers without a server of dense parameters.
    """

    trainers: int
    sparse_servers: int
    dense_servers: int
    readers: int
    threads: int
    batch_per_thread: int
    cores: int
    framework: Framework
    precision: PrecisionChoice = SINGLE_PRECISION
    optimizer: Optimizer = field(default_factory=Optimizer)
    indices: Law = UNIFORM_LAW
    sync_every: int = SYNC_EVERY
    placement: Placement = "bytes"
    decode_bytes_per_s: float = DECODE_BYTES_PER_S
    slow_ranks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Check the sizes."""
        at_least = {
            "trainers": 1, "sparse_servers": 1, "dense_servers": 0 if self.trainers == 1 else 1, "readers": 0,
            "threads": 1, "batch_per_thread": 1, "sync_every": 1,
        }  # fmt: skip
        for key, least in at_least.items():
            value = getattr(self, key)
            if value < least:
                raise InputError("impossible size", key=f"workload.{key}", given=value, expected=f"{least} or more")

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.trainers + self.sparse_servers + self.dense_servers + self.readers

    @property
    def global_batch_size(self) -> int:
        """Samples of an iteration, in which each thread of each trainer trains a batch."""
        return self.trainers * self.threads * self.batch_per_thread

    @property
    def groups(self) -> int:
        """Groups of a trainer's threads."""
        return min(THREAD_GROUPS, self.threads)

    @property
    def group_threads(self) -> float:
        """Threads of a group, a mean where they do not divide evenly."""
        return self.threads / self.groups

    @property
    def waves(self) -> list[list[int]]:
        """Trainers of each wave; slow ones have waves of their own."""
        slow = [rank for rank in range(self.trainers) if rank in self.slow_ranks]
        others = [rank for rank in range(self.trainers) if rank not in self.slow_ranks]
        return [ranks for equal in (others, slow) for ranks in _waves(equal)]

    @property
    def crowding(self) -> float:
        """Factor on the time of a thread that shares its core with others: all cores are shared evenly."""
        return max(1.0, self.threads / self.cores)

    @property
    def first_sparse(self) -> int:
        """Rank of the first server of tables."""
        return self.trainers

    @property
    def first_dense(self) -> int:
        """Rank of the first server of dense parameters."""
        return self.trainers + self.sparse_servers

    @property
    def first_reader(self) -> int:
        """Rank of the first reader."""
        return self.first_dense + self.dense_servers

    @property
    def table_settings(self) -> DlrmSettings:
        """Settings for counting lookups and updates; their batch is the sum over all trainers."""
        return DlrmSettings(
            world_size=1,
            local_world_size=1,
            global_batch_size=self.global_batch_size,
            framework=self.framework,
            precision=self.precision,
            optimizer=self.optimizer,
            indices=self.indices,
            on_host=True,
            measured_host=False,
            embedding_update="race_free",
        )


def _waves(trainers: list[int]) -> list[list[int]]:
    """Equal trainers in as even waves as there may be."""
    count = min(MOST_WAVES, len(trainers))
    return [part.tolist() for part in np.array_split(trainers, count)] if count else []
