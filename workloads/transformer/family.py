"""The family of transformers: a model and the settings of its parallel training as one workload."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.program import TaskGraph
from workloads.family import Headline
from workloads.graph.memory import MemoryUse
from workloads.transformer.iteration import iteration_graph
from workloads.transformer.memory import memory_per_rank
from workloads.transformer.settings import TransformerSettings


@dataclass(frozen=True, slots=True)
class TransformerWorkload:
    """A transformer that trains on all ranks."""

    settings: TransformerSettings

    def graph(self) -> TaskGraph:
        """The task graph of one iteration."""
        return iteration_graph(self.settings)

    def memory(self) -> MemoryUse:
        """Bytes that every rank keeps, see `workloads.transformer.memory`."""
        return memory_per_rank(self.settings)

    @property
    def headline(self) -> Headline:
        """Tokens over all ranks."""
        return Headline("tokens", self.settings.tokens_per_iteration)
