"""One pass of an iteration: its parts in the order of the pipeline, and what they wait for in other passes."""

from __future__ import annotations

from collections.abc import Callable

from workloads.backward import OPTIMIZER, Backward
from workloads.forward import fill_name, record_dense, record_fills, record_lookups
from workloads.input_path import COPY, INDICES, InputPath
from workloads.job import Job
from workloads.launch import DEFAULT, LOOKUP, PREFETCH, Recorder
from workloads.schedule import Part, Schedule


def record_pass(recorder: Recorder, job: Job, schedule: Schedule) -> None:
    """Record the open pass of ``recorder``."""
    parts = _Pass(recorder, job, schedule)
    for part in schedule.order:
        parts.record[part]()


class _Pass:
    """The parts of a pass. What one waits for may be recorded later in the pass: it serves another batch."""

    record: dict[Part, Callable[[], None]]

    def __init__(self, recorder: Recorder, job: Job, schedule: Schedule) -> None:
        self._recorder, self._job, self._schedule = recorder, job, schedule
        self._path = path = InputPath(recorder, job, schedule)
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
        """Bring the rows of a later batch into caches; what is evicted has had its updates of the pass before."""
        for group, fill in record_fills(self._recorder, self._job, PREFETCH):
            self._recorder.depend(fill, INDICES, lag=self._schedule.indices - self._schedule.fill)
            self._recorder.depend(fill, f"{group.kind}_update", lag=1)

    def _lookup(self) -> None:
        """Look up rows that the updates of all passes before this one have been applied to."""
        ahead = self._schedule.lookup
        self._path.arrive(ahead)
        if not self._schedule.fill:  # not called ahead it runs inside forward
            record_fills(self._recorder, self._job, DEFAULT)
        lookups = record_lookups(self._recorder, self._job, LOOKUP if self._schedule.own_lookup_stream else DEFAULT)
        for group, lookup in zip(self._job.groups, lookups, strict=True):
            self._recorder.depend(lookup, f"{group.kind}_update", lag=1)
            if group.fill is not None:
                self._recorder.depend(lookup, fill_name(group), lag=self._schedule.fill - ahead)
            if group.values is None:  # copied tables read the batch as copied, and the dense optimizer updates them
                self._recorder.depend(lookup, COPY, lag=self._schedule.copy - ahead)
                self._recorder.depend(lookup, OPTIMIZER, lag=1)
            else:
                ago = 0 if self._job.settings.on_host else self._schedule.indices - ahead
                self._recorder.depend(lookup, INDICES, lag=ago)

    def _forward(self) -> None:
        first = record_dense(self._recorder, self._job, self._schedule.lookup)
        self._recorder.depend(first, COPY, lag=self._schedule.copy)
        self._recorder.depend(first, OPTIMIZER, lag=1)

    def _backward(self) -> None:
        """Backward and optimizers; a batch's place on the device is free when it has been read for the last time."""
        last, updates = Backward(self._recorder, self._job).record()
        for group, update in zip(self._job.groups, updates, strict=True):
            if self._schedule.lookup:  # the lookups of a later batch come first: all its rows are equally old
                self._recorder.depend(update, f"{group.kind}_lookup")
        for reader in [last, *updates]:
            self._path.free_after(reader)
