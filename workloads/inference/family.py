"""The family: servers of a DLRM and a batch of each as one workload."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from simulator.program import TaskGraph
from workloads.dlrm.model.dense import DensePart, dense_part
from workloads.dlrm.model.model import DlrmModel
from workloads.dlrm.model.tables import Tables, expand_tables
from workloads.family import Headline
from workloads.graph.memory import MemoryUse
from workloads.inference.batch import batch_graph
from workloads.inference.memory import memory_of_servers
from workloads.inference.settings import InferenceSettings
from workloads.inference.tiers import BatchRows, rows_of_batch
from workloads.inference.work import batch_work


@dataclass(frozen=True, slots=True)
class InferenceWorkload:
    """A DLRM that answers batches of requests.

    Raises:
        InputError: the model contradicts itself.
    """

    model: DlrmModel
    settings: InferenceSettings
    tables: Tables = field(init=False)
    dense: DensePart = field(init=False)

    def __post_init__(self) -> None:
        """Expand the tables."""
        tables = replace(expand_tables(self.model, self.settings.tables), pooling=())  # bags count as their means
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "dense", dense_part(self.model, tables))

    def graph(self) -> TaskGraph:
        """The task graph of a batch on every server, see `workloads.inference.batch.batch_graph`."""
        return batch_graph(batch_work(self.model, self.tables, self.dense, self.settings), self.settings)

    def memory(self) -> MemoryUse:
        """Bytes of every server, see `workloads.inference.memory.memory_of_servers`."""
        settings = self.settings
        largest = replace(settings, batch=settings.most)
        job = batch_work(self.model, self.tables, self.dense, largest).job
        return memory_of_servers(self.tables, self.dense, settings, float(np.max(job.input_bytes)))

    @property
    def headline(self) -> Headline:
        """Samples of all servers' batches."""
        return Headline("samples", self.settings.servers * self.settings.batch)

    def rows(self) -> BatchRows:
        """Rows of a server's batch by tier."""
        return rows_of_batch(self.tables, self.settings, self.settings.batch)

    def of_batch(self, samples: int, more_rows: tuple[float, float] = (0.0, 0.0)) -> InferenceWorkload:
        """The same servers with batches of another size, and with more missing rows than the mean.

        Args:
            more_rows: standard deviations of rows from host memory, and of rows from SSDs.
        """
        return replace(self, settings=replace(self.settings, batch=samples, more_rows=more_rows))
