"""The family of captured jobs: records of a training step and their settings as one workload."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.program import TaskGraph
from workloads.captured.iteration import iteration_graph
from workloads.captured.memory import memory_per_rank
from workloads.captured.settings import CapturedSettings
from workloads.family import Headline
from workloads.graph.memory import MemoryUse


@dataclass(frozen=True, slots=True)
class CapturedWorkload:
    """A captured job on its ranks; see `workloads.family.Workload`."""

    settings: CapturedSettings

    def graph(self) -> TaskGraph:
        """The task graph of one iteration; raises as `workloads.captured.iteration.iteration_graph`."""
        return iteration_graph(self.settings)

    def memory(self) -> MemoryUse:
        """Bytes that every rank keeps, see `workloads.captured.memory`."""
        return memory_per_rank(self.settings)

    @property
    def headline(self) -> Headline:
        """Samples over all ranks; steps of ranks where a rank's samples are unknown."""
        return Headline("samples", self.settings.global_batch_size)
