"""The DLRM family: a model, its sharding plan and the job's settings as one workload."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.program import TaskGraph
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.iteration.memory import memory_per_rank
from workloads.dlrm.model.model import DlrmModel
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.sharding.plan import Plan
from workloads.family import Headline
from workloads.graph.memory import MemoryUse


@dataclass(frozen=True, slots=True)
class DlrmWorkload:
    """A DLRM that trains with a plan."""

    model: DlrmModel
    plan: Plan
    settings: DlrmSettings

    def graph(self) -> TaskGraph:
        """The task graph of one iteration, see `workloads.dlrm.iteration.generate.generate`."""
        return generate(self.model, self.plan, self.settings)

    def memory(self) -> MemoryUse:
        """Bytes that every rank keeps, see `workloads.dlrm.iteration.memory.memory_per_rank`."""
        return memory_per_rank(self.model, self.plan, self.settings)

    @property
    def headline(self) -> Headline:
        """Samples over all ranks and passes."""
        settings = self.settings
        equal_passes = settings.global_batch_size * settings.gradient_accumulation
        return Headline("samples", settings.iteration_samples or equal_passes)
