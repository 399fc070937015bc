"""Input: the copy of a batch to the device, and input_dist, which sends its indices to the owners of the tables.

As TorchRec does it (dist_data.py): features are permuted into the order of their owners; the ranks tell each other how
much they will send (splits), which the host must know, so it waits for them; lengths and values follow; what arrives is
permuted back (recat).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.operators import Amount, CollectiveCall, Copy, Elementwise
from workloads.embeddings import INPUT_WORLD, WORLD
from workloads.job import Job
from workloads.launch import COMM, DATA_DIST, DEFAULT, INPUT_COMM, MEMCPY, Recorder

SPLITS_BYTES = 8
"""A split is an int64 (torchrec dist_data.py)."""

SECTION = "input"

_BUCKETIZE_LAUNCHES = 3
"""Kernels of FBGEMM's block_bucketize_sparse_features: count, prefix sum, scatter."""


@dataclass(frozen=True, slots=True)
class Splits:
    """Tasks of the splits exchange: the first one, and the copy to the host that is waited for."""

    first: int
    to_host: int


class InputPath:
    """Records the input tasks of an iteration; which batch they serve is the pipeline's business."""

    def __init__(self, recorder: Recorder, job: Job) -> None:
        """Use the streams that the pipeline and the framework give input_dist."""
        own = job.settings.framework.input_process_group.value == "own"
        self._recorder, self._job = recorder, job
        self._stream = DEFAULT if job.settings.pipeline == "none" else DATA_DIST
        self._comm, self._communicator = (INPUT_COMM, INPUT_WORLD) if own else (COMM, WORLD)

    def copy(self) -> int:
        """Copy a batch to the device."""
        return self._recorder.kernel("input_copy", Copy(self._job.input_bytes, "h2d"), stream=MEMCPY, section=SECTION)

    def start(self) -> Splits:
        """Permute features and exchange splits."""
        values = float(sum(np.mean(g.values.bytes) for g in self._job.groups if g.values is not None))
        permute = self._recorder.kernel(
            "input_dist_permute", Elementwise(values, values), stream=self._stream, section=SECTION
        )
        for group in self._job.groups:
            if group.cut_by_rows and group.values is not None:
                indices = float(np.mean(group.values.bytes))
                bucketize = Elementwise(2 * indices, indices)  # counted, then written by owner
                self._recorder.kernel(
                    f"{group.kind}_bucketize",
                    bucketize,
                    stream=self._stream,
                    section=SECTION,
                    launches=_BUCKETIZE_LAUNCHES,
                )
        entries = 1 + 2 * sum(g.values is not None for g in self._job.groups)  # stride; lengths and values per kind
        size = float(self._job.settings.world_size * SPLITS_BYTES * entries)
        splits = self._collective("input_dist_splits", CollectiveCall("all_to_all", self._communicator, size, "int64"))
        to_host = self._recorder.kernel(
            "input_dist_splits_to_host", Copy(size, "d2h"), stream=self._stream, section=SECTION, after=[splits]
        )
        return Splits(permute, to_host)

    def finish(self, splits: Splits) -> int:
        """Wait for the splits on the host, exchange lengths and values, permute back; returns the last task."""
        self._recorder.host_wait("wait_input_dist_splits", splits.to_host, section=SECTION)
        index = f"int{8 * self._job.settings.index_bytes}"
        arrived: list[int] = []
        received: Amount = 0.0
        for group in self._job.groups:
            if group.lengths is None or group.values is None:
                continue
            for what, exchange in (("lengths", group.lengths), ("values", group.values)):
                call = exchange.call("all_to_all", self._communicator, index)
                arrived.append(self._collective(f"{group.kind}_input_dist_{what}", call))
            received = received + group.lookup.lookups * self._job.settings.index_bytes
        return self._recorder.kernel(
            "input_dist_recat", Elementwise(received, received), stream=self._stream, section=SECTION, after=arrived
        )

    def _collective(self, name: str, call: CollectiveCall) -> int:
        return self._recorder.collective(name, call, section=SECTION, issued_from=self._stream, stream=self._comm)
