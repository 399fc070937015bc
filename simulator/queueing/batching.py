"""Servers that answer requests in batches, first come, first served.

An idle server takes the next batch: the oldest requests, up to the size of a batch. The batch begins when it is full or
its oldest request has waited for the longest wait, whichever comes first, and not before the server is idle. Arrivals
are known in advance, so an idle server takes its next batch at once, even if the batch begins later, and each batch is
one event. Batches begin in the order of their requests: no idle server could begin a batch earlier.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import simpy

from simulator.operators import FloatArray
from simulator.program import IntArray

Routing: TypeAlias = Literal["shared", "round_robin", "random"]
"""One queue for all servers, or one queue for each server with requests assigned in turn or at random."""

_DRAWN = 8192
"""Number of standard normal numbers drawn at a time."""


@dataclass(frozen=True, slots=True)
class BatchRule:
    """Rule of a dynamic batcher.

    Attributes:
        most: largest number of requests of a batch, 1 or more.
        longest_wait_s: longest wait of the oldest request for further requests, seconds.
    """

    most: int
    longest_wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ServiceTimes:
    """Time of a batch by its number of requests.

    Attributes:
        mean_s: mean time of batches of 1 to B requests ``[B]``, seconds.
        deviation_s: standard deviation from batch to batch ``[B]``, seconds; a time varies as a normal variable.
    """

    mean_s: FloatArray
    deviation_s: FloatArray

    @classmethod
    def fixed(cls, seconds: float, most: int = 1) -> ServiceTimes:
        """The same time for batches of any size."""
        return cls(np.full(most, seconds), np.zeros(most))

    def times(self, factor: float) -> ServiceTimes:
        """The same times, multiplied by a factor."""
        return ServiceTimes(factor * self.mean_s, factor * self.deviation_s)

    def capacity_per_s(self, servers: int) -> float:
        """Requests per second that the servers answer with full batches."""
        return servers * len(self.mean_s) / float(self.mean_s[-1])


@dataclass(frozen=True, slots=True)
class Served:
    """Answered requests and their batches.

    Attributes:
        arrival_s: time at which each request arrives, ascending ``[R]``.
        start_s: time at which its batch begins ``[R]``.
        end_s: time at which it is answered ``[R]``.
        batch_start_s: begin of each batch ``[M]``, seconds.
        batch_end_s: end of each batch ``[M]``, seconds.
        batch_size: number of requests of each batch ``[M]``.
    """

    arrival_s: FloatArray
    start_s: FloatArray
    end_s: FloatArray
    batch_start_s: FloatArray
    batch_end_s: FloatArray
    batch_size: IntArray


def serve(
    arrival_s: FloatArray,
    servers: int,
    rule: BatchRule,
    service: ServiceTimes,
    draw: np.random.Generator,
    routing: Routing = "shared",
) -> Served:
    """Answer requests.

    Args:
        arrival_s: times of arrival, ascending ``[R]``.
        servers: number of servers.
        service: times of batches of up to ``rule.most`` requests.
        draw: random generator for times of batches and random routes.
    """
    if routing == "shared":
        return _serve_queue(arrival_s, servers, rule, service, draw)
    count = len(arrival_s)
    route = np.arange(count) % servers if routing == "round_robin" else draw.integers(0, servers, count)
    found = [_serve_queue(arrival_s[route == server], 1, rule, service, draw) for server in range(servers)]
    order = np.argsort(np.concatenate([of.arrival_s for of in found]), kind="stable")
    return Served(
        *(np.concatenate([getattr(of, name) for of in found])[order] for name in ("arrival_s", "start_s", "end_s")),
        *(np.concatenate([getattr(of, f"batch_{name}") for of in found]) for name in ("start_s", "end_s", "size")),
    )


def _serve_queue(
    arrival_s: FloatArray, servers: int, rule: BatchRule, service: ServiceTimes, draw: np.random.Generator
) -> Served:
    """Answer the requests of one queue."""
    queue, clock = _Queue(arrival_s.tolist(), rule, service, draw), simpy.Environment()
    for _ in range(servers):
        clock.process(_server(clock, queue))
    clock.run()
    start, end = np.array(queue.start_s), np.array(queue.end_s)
    size = np.array(queue.size, dtype=np.int64)
    return Served(arrival_s, np.repeat(start, size), np.repeat(end, size), start, end, size)


def _server(clock: simpy.Environment, queue: _Queue) -> Generator[simpy.Event]:
    """Process of a server, until all requests are answered."""
    while queue.head < queue.count:
        yield clock.timeout(queue.take(clock.now) - clock.now)


@dataclass(slots=True)
class _Queue:
    """A queue and its batches, as plain lists, which are faster than arrays for single elements."""

    arrival_s: Sequence[float]
    rule: BatchRule
    service: ServiceTimes
    draw: np.random.Generator
    head: int = 0
    count: int = 0
    start_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    _mean_s: list[float] = field(default_factory=list)
    _deviation_s: list[float] = field(default_factory=list)
    _drawn: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.count = len(self.arrival_s)
        self._mean_s, self._deviation_s = self.service.mean_s.tolist(), self.service.deviation_s.tolist()

    def take(self, now_s: float) -> float:
        """Take the next batch for a server that is idle from ``now_s`` on; returns the end of the batch, seconds."""
        head, most = self.head, self.rule.most
        full = head + most
        begin_s = self.arrival_s[head] + self.rule.longest_wait_s
        if full <= self.count and self.arrival_s[full - 1] < begin_s:
            begin_s = self.arrival_s[full - 1]
        begin_s = max(begin_s, now_s)
        size = 1 if most == 1 else bisect_right(self.arrival_s, begin_s, head + 1, min(full, self.count)) - head
        end_s = begin_s + self._time_s(size)
        self.head = head + size
        self.start_s.append(begin_s)
        self.end_s.append(end_s)
        self.size.append(size)
        return end_s

    def _time_s(self, size: int) -> float:
        """Time of a batch, seconds."""
        deviation_s = self._deviation_s[size - 1]
        if not deviation_s:
            return self._mean_s[size - 1]
        if not self._drawn:
            self._drawn = self.draw.standard_normal(_DRAWN).tolist()
        return max(0.0, self._mean_s[size - 1] + deviation_s * self._drawn.pop())
