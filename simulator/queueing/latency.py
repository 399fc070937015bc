"""Latency of answered requests, use of the servers, and length of the queue."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from simulator.operators import FloatArray
from simulator.queueing.batching import Served

PERCENTILES = {"p50_s": 50.0, "p90_s": 90.0, "p99_s": 99.0, "p999_s": 99.9}
"""Percentiles of latency, by key."""

WARM_UP = 0.1
"""Fraction of the simulated time at its start that results leave out, because the queue starts empty."""

QUEUE_PARTS = 200
"""Number of parts of the simulated time with a reported length of the queue."""


@dataclass(frozen=True, slots=True)
class RequestLatency:
    """Times from arrival to answer, seconds, of the requests that arrive after the warm-up.

    Attributes:
        wait_s: mean time from arrival to the begin of the batch.
    """

    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    p999_s: float
    wait_s: float

    def to_dict(self) -> dict[str, float]:
        """Plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Load:
    """Work of the servers after the warm-up.

    Attributes:
        requests: number of arriving requests.
        answered_per_s: requests answered per second.
        busy: fraction of time in which servers compute.
        mean_batch: number of requests of a batch, mean over batches.
        waiting: number of requests that wait for the begin of their batch, mean over time.
    """

    requests: int
    answered_per_s: float
    busy: float
    mean_batch: float
    waiting: float


def latency_of(served: Served, horizon_s: float) -> RequestLatency:
    """Latency of the requests that arrive after the warm-up; at least one request must arrive."""
    counted = served.arrival_s >= WARM_UP * horizon_s
    taken_s = (served.end_s - served.arrival_s)[counted]
    waits_s = (served.start_s - served.arrival_s)[counted]
    found = np.percentile(taken_s, list(PERCENTILES.values())).tolist()
    percentiles = dict(zip(PERCENTILES, found, strict=True))
    return RequestLatency(mean_s=float(taken_s.mean()), **percentiles, wait_s=float(waits_s.mean()))


def load_of(served: Served, servers: int, horizon_s: float) -> Load:
    """Work of the servers from the warm-up to the end of arrivals."""
    first_s = WARM_UP * horizon_s
    length_s = horizon_s - first_s
    busy_s = np.clip(served.batch_end_s, first_s, horizon_s) - np.clip(served.batch_start_s, first_s, horizon_s)
    waits_s = np.clip(served.start_s, first_s, horizon_s) - np.clip(served.arrival_s, first_s, horizon_s)
    inside = (served.end_s >= first_s) & (served.end_s < horizon_s)
    begun = served.batch_size[(served.batch_start_s >= first_s) & (served.batch_start_s < horizon_s)]
    return Load(
        requests=int(np.count_nonzero(served.arrival_s >= first_s)),
        answered_per_s=float(np.count_nonzero(inside)) / length_s,
        busy=float(busy_s.sum()) / (servers * length_s),
        mean_batch=float(begun.mean()) if len(begun) else 0.0,
        waiting=float(waits_s.sum()) / length_s,
    )


def queue_over_time(served: Served, horizon_s: float) -> tuple[FloatArray, FloatArray]:
    """Ends of equal parts of the time, seconds, and mean number of waiting requests in each part; two ``[Q]``.

    The number is ``d/dx sum of (x - arrival) - (x - start)`` over arrivals and starts before x.
    """
    edges = np.linspace(0.0, horizon_s, QUEUE_PARTS + 1)
    waited_s = _passed_s(served.arrival_s, edges) - _passed_s(np.sort(served.start_s), edges)
    return edges[1:], np.diff(waited_s) / np.diff(edges)


def _passed_s(events_s: FloatArray, edges_s: FloatArray) -> FloatArray:
    """Time since each event before an edge, summed over events ``[Q]``, seconds; events are ascending."""
    before = np.searchsorted(events_s, edges_s)
    return np.asarray(before * edges_s - np.concatenate([[0.0], np.cumsum(events_s)])[before])
