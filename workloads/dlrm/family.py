"""The DLRM family: a model, its sharding plan and the job's settings as one workload."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from simulator.program import TaskGraph
from workloads.dlrm.iteration.generate import graph_of
from workloads.dlrm.iteration.job import Job, make_job
from workloads.dlrm.iteration.memory import memory_of
from workloads.dlrm.model.model import DlrmModel
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.sharding.plan import Plan
from workloads.family import Headline
from workloads.graph.memory import MemoryUse


@dataclass(frozen=True)  # no slots: they would leave no place to keep the job
class DlrmWorkload:
    """A DLRM that trains with a plan."""

    model: DlrmModel
    plan: Plan
    settings: DlrmSettings

    @cached_property
    def job(self) -> Job:
        """Inputs of the task graph and of the memory, computed once.

        Raises:
            InputError: the model contradicts itself.
        """
        return make_job(self.model, self.plan, self.settings)

    def graph(self) -> TaskGraph:
        """The task graph of one iteration, see `workloads.dlrm.iteration.generate.graph_of`."""
        return graph_of(self.job)

    def memory(self) -> MemoryUse:
        """Bytes that every rank keeps, see `workloads.dlrm.iteration.memory.memory_of`."""
        return self._memory

    @cached_property
    def _memory(self) -> MemoryUse:
        return memory_of(self.job)

    @property
    def headline(self) -> Headline:
        """Samples over all ranks and passes."""
        settings = self.settings
        equal_passes = settings.global_batch_size * settings.gradient_accumulation
        return Headline("samples", settings.iteration_samples or equal_passes)
