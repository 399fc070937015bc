"""The family: a DLRM, its tables on servers, and the job's settings as one workload."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simulator.program import IntArray, TaskGraph
from workloads.dlrm.model.dense import DensePart, dense_part
from workloads.dlrm.model.model import DlrmModel
from workloads.dlrm.model.tables import Tables, expand_tables
from workloads.dlrm_ps.job import ServersJob
from workloads.dlrm_ps.memory import memory_per_rank
from workloads.dlrm_ps.placement import PlacedTables, place_tables
from workloads.dlrm_ps.requests import requests_of
from workloads.dlrm_ps.servers import server_programs
from workloads.dlrm_ps.settings import PsSettings
from workloads.dlrm_ps.thread_work import thread_steps
from workloads.dlrm_ps.trainer import trainer_program
from workloads.family import Headline
from workloads.graph.memory import MemoryUse

FEATURE_BYTES = 4
"""Size of a dense feature of a batch (fp32)."""


@dataclass(frozen=True, slots=True)
class DlrmPsWorkload:
    """A DLRM that trains asynchronously with parameter servers.

    Raises:
        InputError: the model contradicts itself.
    """

    model: DlrmModel
    settings: PsSettings
    model_tables: Tables = field(init=False)
    dense: DensePart = field(init=False)
    placed: PlacedTables = field(init=False)
    job: ServersJob = field(init=False)

    def __post_init__(self) -> None:
        """Place the tables and count the amounts."""
        settings = self.settings
        tables = expand_tables(self.model, settings.precision.tables)
        dense = dense_part(self.model, tables)
        placed = place_tables(tables, settings.sparse_servers, settings.placement, settings.optimizer.tables)
        counted = settings.table_settings
        lookups = float(tables.lookups_per_sample.sum()) * counted.index_bytes
        sample_bytes = dense.dense_features * FEATURE_BYTES + tables.feature_count * counted.length_bytes + lookups
        job = ServersJob(
            settings=settings,
            steps=thread_steps(dense, int(tables.pooled_dim.sum()), settings),
            requests=requests_of(placed, settings),
            parameters=dense.parameters,
            sample_bytes=sample_bytes,
        )
        for name, value in (("model_tables", tables), ("dense", dense), ("placed", placed), ("job", job)):
            object.__setattr__(self, name, value)

    def graph(self) -> TaskGraph:
        """The task graph of one iteration, in which every thread of every trainer trains a batch."""
        job, settings, communicators = self.job, self.settings, dict[str, IntArray]()
        programs = [trainer_program(job, wave) for wave in range(len(settings.waves))]
        for wave, name, first, count in self._exchanges():
            members = np.full(settings.world_size, -1, dtype=np.int64)
            members[[*settings.waves[wave], *range(first, first + count)]] = 0
            communicators[name] = members
        return TaskGraph((*programs, *server_programs(job)), communicators)

    def memory(self) -> MemoryUse:
        """Bytes that every rank keeps, see `workloads.dlrm_ps.memory.memory_per_rank`."""
        return memory_per_rank(self.job, self.dense, self.placed)

    @property
    def headline(self) -> Headline:
        """Samples over all trainers."""
        return Headline("samples", self.settings.global_batch_size)

    def _exchanges(self) -> list[tuple[int, str, int, int]]:
        """Wave, communicator, first rank and number of the servers of each kind of exchange."""
        job, settings, found = self.job, self.settings, list[tuple[int, str, int, int]]()
        for source in job.sources:
            for part in job.parts:
                name = job.indices(source, part).communicator
                found.append((source.wave, name, settings.first_sparse, settings.sparse_servers))
            if settings.readers:
                name = job.batches(source).communicator
                found.append((source.wave, name, settings.first_reader, settings.readers))
        for wave in range(len(settings.waves)) if settings.dense_servers else ():
            found.append((wave, job.dense(wave).communicator, settings.first_dense, settings.dense_servers))
        return found
