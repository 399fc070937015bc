"""Program of a server: one batch after the other, from its copy to the device to the scores on the host."""

from __future__ import annotations

import numpy as np

from simulator.operators import CacheFill, Copy, Elementwise, HostTraffic, HostWork, Marker
from simulator.program import TaskGraph
from workloads.dlrm.iteration.forward import BOTTOM, record_interaction, record_lookup, record_mlp
from workloads.dlrm.rows.cache import FILL_LAUNCHES
from workloads.graph.recorder import DEFAULT, HOST, MEMCPY, Recorder
from workloads.inference.settings import InferenceSettings
from workloads.inference.work import BatchWork, MissingRows

SSD = "ssd"
"""Stream of reads from SSDs."""

EMBEDDING, OUTPUT = "embedding_forward", "output"
"""Sections of lookups, and of scores."""

SCORE_BYTES = 4
"""Size of the score of a sample (fp32)."""


def batch_graph(work: BatchWork, settings: InferenceSettings) -> TaskGraph:
    """The task graph of one batch on every server; a server takes the next one when the last one is answered."""
    recorder = Recorder(
        np.arange(settings.servers, dtype=np.int64),
        settings.framework,
        (HOST,) if settings.on_host else (HOST, DEFAULT, MEMCPY, SSD),
        cuda_graph=settings.cuda_graph,
        on_host=settings.on_host,
        host_factors=True,
        name="server",
    )
    first = recorder.host("take_batch", Marker(), section="input")
    recorder.depend(first, "answer", lag=1)
    arrived = recorder.kernel("copy_batch", Copy(work.job.input_bytes, "h2d"), section="input", stream=MEMCPY)
    ready = arrived if work.missing is None else _fetch(recorder, work.missing, arrived)
    _forward(recorder, work, ready)
    recorder.depend(recorder.host("answer", Marker(), section=OUTPUT), "scores_to_host")
    return TaskGraph((recorder.build(),), {})


def _fetch(recorder: Recorder, missing: MissingRows, arrived: int) -> int:
    """Bring the rows that the cache lacks to the device; returns the last task.

    Threads of the host find them; those of SSDs are read before all are copied together.
    """
    asked = arrived
    if missing.query is not None:
        query = recorder.kernel(
            "cache_query", missing.query, section=EMBEDDING, after=[arrived], launches=FILL_LAUNCHES
        )
        asked = recorder.kernel(
            "missing_keys", Copy(missing.key_bytes, "d2h"), section=EMBEDDING, stream=MEMCPY, after=[query]
        )
        recorder.wait_for("missing_keys", section=EMBEDDING)
    recorder.host("find_rows", HostWork(seconds=missing.host_s), section=EMBEDDING)
    if missing.ssd is not None:
        recorder.kernel("read_ssd", missing.ssd, section=EMBEDDING, stream=SSD, after=[asked], launches=0)
        recorder.wait_for("read_ssd", section=EMBEDDING)
    copied = recorder.kernel("rows_to_device", Copy(missing.row_bytes, "h2d"), section=EMBEDDING, stream=MEMCPY)
    moved = CacheFill(0.0, 0.0, 2.0 * missing.row_bytes, HostTraffic())  # read from the buffer, written to the cache
    return recorder.kernel("cache_insert", moved, section=EMBEDDING, after=[copied])


def _forward(recorder: Recorder, work: BatchWork, ready: int) -> None:
    """Lookup of all rows, bottom MLP, interaction, top MLP, and the scores back to the host."""
    job = work.job
    (group,) = job.groups
    recorder.depend(record_lookup(recorder, job, group, DEFAULT), ready)
    record_mlp(recorder, job, job.dense.bottom, BOTTOM, cast_input=True)
    record_interaction(recorder, job)
    record_mlp(recorder, job, job.dense.top, "top_mlp_forward")
    size = float(job.batch * job.dense.top[-1].outputs * job.element_bytes)
    recorder.wait_for_launches("iteration_sync", job.settings.framework.seconds("iteration_s"), section=OUTPUT)
    scores = recorder.kernel("sigmoid", Elementwise(size, size), section=OUTPUT, operators=["aten::sigmoid"])
    there = Copy(float(job.batch * SCORE_BYTES), "d2h")
    recorder.kernel("scores_to_host", there, section=OUTPUT, stream=MEMCPY, after=[scores])
