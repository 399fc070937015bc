"""Settings of a captured job beside its records: framework, popularity of rows, number formats, fusion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from workloads.captured.records import RecordedJob
from workloads.dlrm.laws.index_laws import UNIFORM_LAW, Law
from workloads.graph.choices import Progress
from workloads.graph.framework import Framework

Fusion: TypeAlias = Literal["none", "elementwise"]
"""Kernels that become one: none; neighbours that are element-wise and pass a tensor."""


@dataclass(frozen=True, slots=True)
class HostRanks:
    """Ranks that compute on CPUs, as their cluster has them.

    Attributes:
        measured: whether kernels were measured, with the host's work around them.
        progress: place in which collectives advance.
        threads: threads that run the collectives of a process group.
        copied: collectives that are done on a copy of their input.
    """

    measured: bool = True
    progress: Progress = "beside"
    threads: int = 1
    copied: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CapturedSettings:
    """A captured job as the generator takes it.

    Attributes:
        law: law of row lookups in all tables.
        tf32: whether products and convolutions of fp32 tensors compute in tf32.
        host: ranks on CPUs; None: each has a GPU.
    """

    job: RecordedJob
    framework: Framework
    law: Law = UNIFORM_LAW
    tf32: bool = False
    fuse: Fusion = "none"
    host: HostRanks | None = None

    @property
    def samples_per_rank(self) -> int:
        """Samples of a step on each rank; 1 where they are unknown, so that steps of ranks are counted."""
        return self.job.samples_per_rank or 1

    @property
    def global_batch_size(self) -> int:
        """Samples of a step over all ranks."""
        return self.samples_per_rank * self.job.world_size
