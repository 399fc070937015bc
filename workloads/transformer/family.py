"""The family of transformers: a model and the settings of its parallel training as one workload."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.program import TaskGraph
from workloads.family import Headline
from workloads.graph.memory import MemoryUse
from workloads.transformer.iteration import iteration_graph
from workloads.transformer.memory import memory_per_rank
from workloads.transformer.repeated import RepeatedLayers
from workloads.transformer.settings import TransformerSettings


@dataclass(frozen=True, slots=True)
class TransformerWorkload:
    """A transformer that trains on all ranks.

    Attributes:
        again: layers that a transformation of the graph repeats; None: it has none.
    """

    settings: TransformerSettings
    again: RepeatedLayers | None = None

    def graph(self) -> TaskGraph:
        """The task graph of one iteration."""
        return iteration_graph(self.settings)

    def memory(self) -> MemoryUse:
        """Bytes that every rank keeps, see `workloads.transformer.memory`."""
        return memory_per_rank(self.settings, self.again)

    def memory_note(self) -> str | None:
        """Effect of tasks that run again on memory that is left out; None: none is."""
        if self.again is not None and not self.again.partly:
            return None
        return "memory is that of a job without recompute: only whole layers, or attention of all, free any"

    @property
    def headline(self) -> Headline:
        """Tokens over all ranks."""
        return Headline("tokens", self.settings.tokens_per_iteration)
