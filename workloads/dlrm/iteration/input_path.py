"""Input: how a batch comes in, its copy to the device, and input_dist, which sends its indices to the owners.

As TorchRec does it (dist_data.py): features are permuted into the order of their owners; the ranks exchange how much
they will send (splits), which the host must know, so it waits for them; lengths and values follow; received data is
permuted back (recat). Inside a CUDA graph the host cannot wait: the sizes are known beforehand, there are no splits.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import Amount, Copy, Elementwise, Ingest, Marker, Measured
from workloads.dlrm.iteration.groups import INPUT_WORLD, EmbeddingGroup
from workloads.dlrm.iteration.job import Job
from workloads.dlrm.model.batch_contents import batch_lookups
from workloads.dlrm.model.choices import Ingestion
from workloads.dlrm.rows.kernels import amount
from workloads.dlrm.rows.traffic import sort_bytes
from workloads.graph.levels import WORLD
from workloads.graph.recorder import COMM, DATA_DIST, DEFAULT, FRONTEND, INPUT_COMM, MEMCPY, READER, Recorder
from workloads.graph.schedule import Schedule

SPLITS_BYTES = 8
"""A split is an int64 (torchrec dist_data.py)."""

SECTION = "input"
COPY, PERMUTE, INDICES = "input_copy", "input_dist_permute", "input_dist_recat"
EXCHANGE, SPLITS = "input_dist_splits", "input_dist_splits_to_host"
"""The copy, the first task of input_dist, the end of its exchange of splits, its last task."""

_COPIES = ("aten::to",) * 4
"""Copies of dense features, lengths, indices and labels, an operator each."""

DEDUP = "input_dist_dedup"
"""The task that keeps each row of a batch once."""

_DEDUP_LAUNCHES = 4
"""Kernels of a radix sort, run lengths and inverse indices (assumed)."""

_BUCKETIZE_LAUNCHES = 3
"""Kernels of FBGEMM's block_bucketize_sparse_features: count, prefix sum, scatter."""


class InputPath:
    """Records the input tasks of a pass; the schedule says which batch they serve."""

    def __init__(self, recorder: Recorder, job: Job, schedule: Schedule) -> None:
        """Use the streams that the pipeline and the framework give input_dist."""
        own = job.settings.framework.input_process_group.value == "own"
        self._recorder, self._job, self._schedule = recorder, job, schedule
        self._stream = DATA_DIST if schedule.own_input_stream else DEFAULT
        self._comm, self._communicator = (INPUT_COMM, INPUT_WORLD) if own else (COMM, WORLD)
        self._fixed_sizes = job.settings.cuda_graph == "iteration"

    def copy(self) -> None:
        """Copy a batch to the device, when it has come in and there is room."""
        after = [] if self._job.settings.ingestion is None else [self._ingest(self._job.settings.ingestion)]
        work = Copy(self._job.input_bytes, "h2d")
        waits = self._job.waits_for_copies_and_loss
        self._copy = self._recorder.kernel(
            COPY, work, stream=DEFAULT if waits else MEMCPY, section=SECTION, after=after, operators=_COPIES
        )
        if waits:
            self._recorder.wait_for(COPY, section=SECTION)

    def free_after(self, reader: int | str) -> None:
        """Let the copy wait for a task that reads a batch for the last time, whose place it takes.

        The copy of a batch that is n ahead, into one of s slots, overwrites the one of s - n passes before.
        """
        self._recorder.depend(self._copy, reader, lag=self._schedule.slots - self._schedule.copy)

    def _ingest(self, ingestion: Ingestion) -> int:
        """Read and receive the batch, ahead of its use by at most the batches there is room for; returns the last.

        Every rank has its part of the rate of all reader hosts.
        """
        whole = self._job.input_bytes * self._job.settings.world_size
        reading = Measured(whole / ingestion.bytes_per_s, Category.INPUT)
        read = self._recorder.task("read_batch", READER, reading, section=SECTION)
        receiving = Ingest(self._job.input_bytes)
        receive = self._recorder.task("receive_batch", FRONTEND, receiving, after=[read], section=SECTION)
        self._recorder.depend(read, "receive_batch", lag=ingestion.queue_batches)
        self._recorder.depend(receive, COPY, lag=ingestion.queue_batches)
        return receive

    def splits(self) -> None:
        """Permute features and exchange splits."""
        if self._job.settings.index_dedup:
            self._deduplicate()
        if not self._job.exchanges_indices:
            return
        values = float(sum(np.mean(g.values.bytes) for g in self._job.groups if g.values is not None))
        permute = self._recorder.kernel(PERMUTE, Elementwise(values, values), stream=self._stream, section=SECTION)
        self._recorder.depend(permute, COPY, lag=self._schedule.copy - self._schedule.splits)
        for group in self._job.groups:
            if group.cut_by_rows and group.values is not None:
                indices = float(np.mean(group.values.bytes))
                bucketize = Elementwise(2 * indices, indices, access="bucketize")  # counted, then written by owner
                self._recorder.kernel(
                    bucketize_name(group), bucketize, stream=self._stream, section=SECTION, launches=_BUCKETIZE_LAUNCHES
                )
        if self._fixed_sizes:
            return
        entries = 1 + 2 * sum(g.values is not None for g in self._job.groups)  # stride; lengths and values per kind
        size = float(self._job.settings.world_size * SPLITS_BYTES * entries)
        splits = self._collective(EXCHANGE, CollectiveCall("all_to_all", self._communicator, size, "int64"))
        if not self._job.settings.on_host:
            self._recorder.kernel(SPLITS, Copy(size, "d2h"), stream=self._stream, section=SECTION, after=[splits])

    def _deduplicate(self) -> None:
        """Sort the indices of a rank's batch, and keep each row once (FBGEMM ``jagged_unique_indices``)."""
        tables, settings = self._job.plan.tables, self._job.settings
        found = batch_lookups(tables, settings).sum(axis=0)
        lookups = found if len(found) > 1 else found / settings.world_size
        rows = np.full(len(lookups), float(tables.rows.sum()))
        moved = amount(sort_bytes(lookups, rows, settings.index_bytes) / 2)
        work = Elementwise(moved, moved)
        dedup = self._recorder.kernel(DEDUP, work, stream=self._stream, section=SECTION, launches=_DEDUP_LAUNCHES)
        self._recorder.depend(dedup, COPY, lag=self._schedule.copy - self._schedule.splits)

    def indices(self) -> None:
        """Wait for the splits on the host, exchange lengths and values, permute back."""
        if not self._job.exchanges_indices:
            return
        ago = self._schedule.splits - self._schedule.indices
        if not self._fixed_sizes:
            on_host = self._job.settings.on_host
            self._recorder.wait_in_calls(EXCHANGE)
            waiting = Marker(Category.COMM if on_host else Category.HOST)
            wait = self._recorder.host("wait_input_dist_splits", waiting, section=SECTION)
            self._recorder.depend(wait, EXCHANGE if on_host else SPLITS, lag=ago)
        index = f"int{8 * self._job.settings.index_bytes}"
        arrived: list[int] = []
        for group in self._job.groups:
            if group.lengths is None or group.values is None:
                continue
            for what, exchange in (("lengths", group.lengths), ("values", group.values)):
                call = exchange.call("all_to_all", self._communicator, index)
                arrived.append(self._collective(f"{group.kind}_input_dist_{what}", call))
                self._recorder.depend(arrived[-1], bucketize_name(group) if group.cut_by_rows else PERMUTE, lag=ago)
        if not self._job.settings.on_host:
            self._recat(arrived)

    def arrive(self, ahead: int) -> None:
        """Wait on the host for the indices of the lookups that follow, ``ahead`` passes ahead; permute them back."""
        if self._job.settings.on_host and self._job.exchanges_indices:
            kinds = [group.kind for group in self._job.groups if group.values is not None]
            exchanges = [f"{kind}_input_dist_{what}" for kind in kinds for what in ("lengths", "values")]
            self._recorder.wait_in_calls(*exchanges)
            task, ago = self._recat(()), self._schedule.indices - ahead
            for exchange in exchanges:
                self._recorder.depend(task, exchange, lag=ago)

    def _recat(self, arrived: Iterable[int]) -> int:
        received: Amount = 0.0
        for group in self._job.groups:
            if group.values is not None:
                received = received + group.lookup.lookups * self._job.settings.index_bytes
        work = self._recat_on_host() if self._job.settings.on_host else Elementwise(received, received)
        return self._recorder.kernel(INDICES, work, stream=self._stream, section=SECTION, after=arrived)

    def _recat_on_host(self) -> Elementwise:
        """Bags are added up; rows are shifted where several tables lie under each other in one block."""
        shifted: Amount = 0.0
        bags: Amount = 0.0
        for group in self._job.groups:
            indices = group.lookup.lookups * self._job.settings.index_bytes
            shifted = shifted + np.where(np.asarray(group.lookup.tables) > 1.0, indices, 0.0)
            bags = bags + group.lookup.index_bytes - indices
        return Elementwise(shifted, bags, access="recat")

    def _collective(self, name: str, call: CollectiveCall) -> int:
        return self._recorder.collective(name, call, section=SECTION, issued_from=self._stream, stream=self._comm)


def bucketize_name(group: EmbeddingGroup) -> str:
    """The kernel that orders the indices of tables cut by rows by their owners."""
    return f"{group.kind}_bucketize"
