"""Programs of servers: of tables, of dense parameters, and readers.

A server takes requests as they come. All servers of a kind get a request at the same time, and the answer goes when the
last of them is ready. That is the one with most work, request after request, so it alone has a queue, and the others
are at once ready for the next one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.operators import EmbeddingLookup, EmbeddingUpdate, FloatArray, HostWork
from simulator.program import IntArray, Program, ProgramBuilder, Stream
from workloads.dlrm_ps.job import Chain, Part, ServersExchange, ServersJob, ThreadGroup, handling, moved
from workloads.dlrm_ps.requests import on_ranks
from workloads.dlrm_ps.settings import PsSettings
from workloads.dlrm_ps.trainer import BACKWARD, EASGD, FORWARD
from workloads.graph.parameter_servers import GRPC_SERVER_THREADS

QUEUE, BESIDE = "queue", "beside"
"""Streams: requests that wait for a server (of one that has no queue, a stream for each source of requests), and
requests that have left the queue and go on."""

Kernel: TypeAlias = EmbeddingLookup | EmbeddingUpdate

AT_ONCE = 2
"""Requests of waves that a server works on at once at least, each on an equal part of the cores."""


def server_programs(job: ServersJob) -> list[Program]:
    """Programs of each kind of server: of the one that has the queue, and of all others."""
    settings = job.settings
    alike = np.zeros(settings.dense_servers), np.zeros(settings.readers)
    tables = _split(settings.first_sparse, job.requests.load, settings)
    dense = _split(settings.first_dense, alike[0], settings)
    readers = _split(settings.first_reader, alike[1], settings)
    return [
        *(_tables(job, servers) for servers in tables),
        *(_parameters(job, servers) for servers in dense),
        *(_readers(job, servers) for servers in readers),
    ]


@dataclass(frozen=True, slots=True)
class _Servers:
    """Servers of a kind with one program.

    Attributes:
        first: rank of the kind's first server.
        numbers: numbers of these servers within the kind.
        has_queue: whether requests wait for each other.
    """

    first: int
    numbers: IntArray
    has_queue: bool

    def recorder(self, name: str, sources: Sequence[str], slots: int) -> _Recorder:
        """An empty program, which works on ``slots`` requests at once."""
        names = [f"{BESIDE if self.has_queue else QUEUE}_{source}" for source in sources]
        streams: list[Stream | str] = [*(f"net_{source}" for source in sources), *names]
        streams += [Stream(QUEUE, workers=slots)] if self.has_queue else []
        builder = ProgramBuilder(f"{name}{self.numbers[0]}", self.first + self.numbers, streams)
        return _Recorder(builder, self.has_queue)


def _split(first: int, load: FloatArray, settings: PsSettings) -> list[_Servers]:
    """Servers of a kind: the one that answers last, then the others; slow ones before those with more load."""
    numbers = np.arange(len(load))
    slow = np.isin(first + numbers, np.array(settings.slow_ranks, dtype=np.int64))
    order = numbers[np.lexsort((numbers, -load, ~slow))]
    found = [_Servers(first, order[:1], has_queue=True), _Servers(first, np.sort(order[1:]), has_queue=False)]
    return [servers for servers in found if len(servers.numbers)]


@dataclass(frozen=True, slots=True)
class _Recorder:
    """A program of servers that is being recorded."""

    builder: ProgramBuilder
    has_queue: bool

    def queue(self, source: str) -> str:
        """The stream on which requests of a source are worked on."""
        return QUEUE if self.has_queue else f"{QUEUE}_{source}"


def _tables(job: ServersJob, servers: _Servers) -> Program:
    """Servers of tables."""
    sources = [f"{source.name}_{part}" for source in job.sources for part in job.parts]
    at_once = _requests_at_once(job)
    recorder = servers.recorder("sparse", sources, at_once)
    for source in job.sources:
        for part in job.parts:
            _Requests(job, recorder, servers.numbers, source, part, at_once).record()
    return recorder.builder.build()


def _requests_at_once(job: ServersJob) -> int:
    """Requests of waves that a server of tables works on at once: as many as its cores have room for."""
    together = len(job.settings.waves[0]) * job.threads(job.parts[-1])
    return max(AT_ONCE, math.ceil(job.settings.cores / together))


@dataclass(frozen=True, slots=True)
class _Requests:
    """Requests of a part of a group to servers of tables, of all trainers of a wave.

    Each is work for one core.
    """

    job: ServersJob
    recorder: _Recorder
    numbers: IntArray
    source: ThreadGroup
    part: Part
    at_once: int

    def record(self) -> None:
        """Record lookups and updates, in the order in which the run begins."""
        parts = (self._lookup, self._update)
        for record in parts if self.source.begins else reversed(parts):
            record()

    def _lookup(self) -> None:
        """Take indices, look rows up, return pooled vectors."""
        indices, vectors = self.job.indices(self.source, self.part), self.job.vectors(self.source, self.part)
        requests, chain = self.job.requests, Chain(self.recorder.builder)
        chain.add(f"indices_{self._name}", self._net, self._call(indices, trainers_send=True), FORWARD)
        answered = requests.index_bytes + requests.vector_bytes
        self._work(chain, ("answer", "lookup"), answered, requests.lookup, FORWARD)
        chain.add(f"vectors_{self._name}", self._net, self._call(vectors, trainers_send=False), FORWARD)

    def _update(self) -> None:
        """Take gradients and update rows, before the next gradients of the same threads."""
        gradients, requests = self.job.gradients(self.source, self.part), self.job.requests
        chain = Chain(self.recorder.builder)
        chain.add(f"gradients_{self._name}", self._net, self._call(gradients, trainers_send=True), BACKWARD)
        self._work(chain, ("take", "update"), requests.gradient_bytes, requests.update, BACKWARD)
        chain.close()

    def _call(self, exchange: ServersExchange, *, trainers_send: bool) -> CollectiveCall:
        return exchange.call_of_servers(self.numbers, trainers_send=trainers_send)

    def _work(self, chain: Chain, names: tuple[str, str], handled: FloatArray, kernel: Kernel, section: str) -> None:
        """Handle the bytes of calls, and run a kernel on one core for each.

        Requests with fewer threads than a slot of the queue has cores leave it sooner than they end.
        """
        share = self._together * self.at_once / self.job.settings.cores
        parts = [("", share, self._queue)]
        if self.recorder.has_queue and share < 1.0:
            parts.append(("_rest", 1.0 - share, self._beside))
        elif share < 1.0:
            parts = [("", 1.0, self._queue)]
        size = float(handled[self.numbers].max())
        for suffix, slower, stream in parts:
            chain.add(f"{names[0]}_{self._name}{suffix}", stream, handling(1, size, slower), section)
            chain.add(f"{names[1]}_{self._name}{suffix}", stream, on_ranks(kernel, self.numbers, slower), section)

    @property
    def _together(self) -> float:
        """Threads of all trainers of the wave in the request."""
        return len(self.job.settings.waves[self.source.wave]) * self.job.threads(self.part)

    @property
    def _name(self) -> str:
        return f"{self.source.name}_{self.part}"

    @property
    def _net(self) -> str:
        return f"net_{self._name}"

    @property
    def _queue(self) -> str:
        return self.recorder.queue(self._name)

    @property
    def _beside(self) -> str:
        return f"{BESIDE}_{self._name}"


def _parameters(job: ServersJob, servers: _Servers) -> Program:
    """Servers of dense parameters: move the centre towards a trainer's parameters, and return it.

    They work on the exchanges of `AT_ONCE` waves at once, each with an equal part of the threads and of the memory's
    rate.
    """
    waves = range(len(job.settings.waves))
    recorder = servers.recorder("dense", [str(wave) for wave in waves], AT_ONCE)
    for wave in waves:
        dense, chain = job.dense(wave), Chain(recorder.builder)
        size, slower = dense.trainers * float(dense.bytes[0]), AT_ONCE / GRPC_SERVER_THREADS
        net, queue = f"net_{wave}", recorder.queue(str(wave))
        sent, centre = (dense.call_of_servers(servers.numbers, trainers_send=sends) for sends in (True, False))
        chain.add(f"parameters_{wave}", net, sent, EASGD)
        chain.add(
            f"handle_{wave}", queue, handling(dense.trainers / job.settings.sync_every, 2.0 * size, slower), EASGD
        )
        chain.add(f"elastic_{wave}", queue, moved(AT_ONCE * size), EASGD)
        chain.add(f"centre_{wave}", net, centre, EASGD)
        chain.close()
    return recorder.builder.build()


def _readers(job: ServersJob, servers: _Servers) -> Program:
    """Readers: decode batches, and send them as soon as there is room."""
    settings = job.settings
    rate = settings.decode_bytes_per_s * settings.cores / AT_ONCE
    recorder = servers.recorder("reader", [source.name for source in job.sources], AT_ONCE)
    for source in job.sources:
        batches, chain = job.batches(source), Chain(recorder.builder)
        decoding = HostWork(seconds=batches.trainers * float(batches.bytes[0]) / rate)
        chain.add(f"decode_{source.name}", recorder.queue(source.name), decoding, "input")
        sent = batches.call_of_servers(servers.numbers, trainers_send=False)
        chain.add(f"batch_{source.name}", f"net_{source.name}", sent, "input")
        chain.close()
    return recorder.builder.build()
