"""One pass of an iteration: its parts in the order of the pipeline, and their waits for other passes."""

from __future__ import annotations

from collections.abc import Callable

from workloads.dlrm.iteration.backward import OPTIMIZER, Backward
from workloads.dlrm.iteration.divided_layers import GatheredWeights
from workloads.dlrm.iteration.forward import (
    dense_reader,
    fill_name,
    record_bottom_of_all,
    record_dense,
    record_fill,
    record_lookup,
)
from workloads.dlrm.iteration.groups import EmbeddingGroup
from workloads.dlrm.iteration.input_path import COPY, DEDUP, INDICES, InputPath
from workloads.dlrm.iteration.job import Job
from workloads.graph.recorder import DEFAULT, LOOKUP, PREFETCH, Recorder
from workloads.graph.schedule import Part, Schedule


def record_pass(recorder: Recorder, job: Job, schedule: Schedule) -> None:
    """Record the open pass of ``recorder``."""
    parts = _Pass(recorder, job, schedule)
    for part in schedule.order:
        parts.record[part]()


class _Pass:
    """The parts of a pass. An input may be recorded later in the pass: it serves another batch."""

    record: dict[Part, Callable[[], None]]

    def __init__(self, recorder: Recorder, job: Job, schedule: Schedule) -> None:
        self._recorder, self._job, self._schedule = recorder, job, schedule
        self._path = path = InputPath(recorder, job, schedule)
        self._weights = GatheredWeights(recorder, job, OPTIMIZER)
        self.record = {
            "copy": path.copy,
            "splits": path.splits,
            "indices": path.indices,
            "fill": self._prefetch,
            "lookup": self._lookup,
            "forward": self._forward,
            "backward": self._backward,
        }

    def _prefetch(self) -> None:
        """Bring the rows of a later batch into caches."""
        for group in self._job.groups:
            fill = record_fill(self._recorder, group, PREFETCH)
            if fill is not None:
                self._read_rows(group, fill, self._schedule.fill)

    def _lookup(self) -> None:
        """Look rows up; those of a cache are brought there before, if no earlier pass did it."""
        ahead = self._schedule.lookup
        self._path.arrive(ahead)
        stream = LOOKUP if self._schedule.own_lookup_stream else DEFAULT
        if self._job.bottom_on_first_rank:
            bottom = record_bottom_of_all(self._recorder, self._job, stream)
            self._recorder.depend(bottom, COPY, lag=self._schedule.copy - ahead)
            self._after_updates(bottom, OPTIMIZER)
        for group in self._job.groups:
            fill = None if self._schedule.fill else record_fill(self._recorder, group, stream)
            lookup = record_lookup(self._recorder, self._job, group, stream)
            self._read_rows(group, lookup if fill is None else fill, ahead)
            if group.fill is not None:
                ago = self._schedule.fill - ahead if fill is None else 0
                self._recorder.depend(lookup, fill_name(group), lag=ago)

    def _read_rows(self, group: EmbeddingGroup, reader: int, ahead: int) -> None:
        """Let what reads rows first for the batch so far ahead wait for its indices, and for all updates so far."""
        self._after_updates(reader, f"{group.kind}_update")
        if group.values is None:  # copied tables read the batch as copied, and the dense optimizer updates them
            self._recorder.depend(reader, COPY, lag=self._schedule.copy - ahead)
            if self._job.settings.index_dedup:
                self._recorder.depend(reader, DEDUP, lag=self._schedule.splits - ahead)
            self._after_updates(reader, OPTIMIZER)
        elif self._job.exchanges_indices:
            ago = 0 if self._job.settings.on_host else self._schedule.indices - ahead
            self._recorder.depend(reader, INDICES, lag=ago)
        else:
            self._recorder.depend(reader, COPY, lag=self._schedule.copy - ahead)

    def _forward(self) -> None:
        first = record_dense(self._recorder, self._job, self._schedule.lookup, self._weights)
        self._recorder.depend(first, COPY, lag=self._schedule.copy)
        self._after_updates(first, OPTIMIZER)

    def _after_updates(self, reader: int, update: str) -> None:
        """Let a reader of parameters wait for their update by the pass before, unless the job only evaluates."""
        if not self._job.settings.evaluates:
            self._recorder.depend(reader, update, lag=1)

    def _backward(self) -> None:
        """Backward and optimizers; a batch's place on the device is free when it has been read for the last time."""
        if self._job.settings.evaluates:
            self._path.free_after(dense_reader(self._job))
            return
        last, updates = Backward(self._recorder, self._job, self._weights).record()
        for group, update in zip(self._job.groups, updates, strict=True):
            if self._schedule.lookup:  # the lookups of a later batch come first: all its rows are equally old
                self._recorder.depend(update, f"{group.kind}_lookup")
        for reader in [dense_reader(self._job) if last is None else last, *updates]:
            self._path.free_after(reader)
