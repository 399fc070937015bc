"""Program of the trainers of a wave: groups of threads, and the exchange of dense parameters beside them.

A group begins a run somewhere within a batch, and its program goes from there to the same place of the next batch. Its
threads exchange one after the other: the tasks of a group follow the first of them, and the messages of the others come
while that one computes, before its next ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.operators import HostWork
from simulator.program import Program, ProgramBuilder
from workloads.dlrm_ps.job import Chain, ServersJob, ThreadGroup, handling, moved
from workloads.dlrm_ps.thread_work import ThreadStep, halves

EASGD, DENSE_NET = "easgd", "dense_net"
"""Streams of the thread that exchanges dense parameters, and of its messages."""

BATCHES_AHEAD = 2
"""Batches of a thread that are read before it needs them, the one on its way included."""

FORWARD, BACKWARD = "embedding_forward", "embedding_backward"


def trainer_program(job: ServersJob, wave: int) -> Program:
    """The program of the trainers of a wave."""
    settings, ranks = job.settings, job.settings.waves[wave]
    streams = [EASGD, DENSE_NET] if settings.dense_servers else []
    sources = [source for source in job.sources if source.wave == wave]
    for source in sources:
        streams += [f"threads_{source.group}", *(f"{part}_{source.group}" for part in job.parts)]
        streams += [f"read_{source.group}"] if settings.readers else []
    builder = ProgramBuilder(f"trainer{ranks[0]}", np.array(ranks), streams)
    chains = [_Group(job, source, Chain(builder)).record() for source in sources]
    if settings.dense_servers:
        last = _easgd(job, builder, wave, chains[0].tasks[0])
        for chain in chains:
            builder.depend(chain.tasks[0], last, lag=1)
    return builder.build()


def _easgd(job: ServersJob, builder: ProgramBuilder, wave: int, first: int) -> int:
    """Exchange a part of the dense parameters with their servers; returns the last task."""
    dense, servers = job.dense(wave), job.settings.dense_servers
    chain, size = Chain(builder), dense.trainer_bytes
    calls = servers / job.settings.sync_every
    chain.add("send_parameters", EASGD, handling(calls, size), EASGD, [first])
    chain.add("parameters", DENSE_NET, dense.call_of_trainers(sends=True), EASGD)
    chain.add("centre", DENSE_NET, dense.call_of_trainers(sends=False), EASGD)
    chain.add("receive_centre", EASGD, handling(0, size), EASGD)
    chain.add("elastic_update", EASGD, moved(job.settings.cores * size), EASGD)
    chain.close()
    return chain.tasks[-1]


@dataclass(frozen=True, slots=True)
class _Group:
    """A group of threads."""

    job: ServersJob
    source: ThreadGroup
    chain: Chain

    def record(self) -> Chain:
        """Record the tasks of an iteration; returns the chain of them."""
        source = self.source
        begun, rest = halves(self.job.steps, source.number / len(self.job.sources))
        if source.begins:
            self._request()
            self._compute(rest)
            self._send_gradients()
        else:
            self._compute(rest)
            self._send_gradients()
            self._request()
            self._compute(begun)
        self.chain.close()
        return self.chain

    def _compute(self, steps: Sequence[ThreadStep]) -> None:
        for step in steps:
            self.chain.add(f"{step.name}_{self._group}", self._threads, step.work, step.section)

    def _request(self) -> None:
        """Take batches, send their indices, get pooled vectors."""
        job, source, group = self.job, self.source, self._group
        read = [self._read()] if job.settings.readers else []
        sent = self._handling(job.settings.sparse_servers, float(job.requests.index_bytes.sum()))
        first = self.chain.add(f"send_indices_{group}", self._threads, sent, FORWARD, read)
        for task in read:
            self.chain.builder.depend(task, first, lag=BATCHES_AHEAD)
        for part in job.parts:
            stream, name = f"{part}_{group}", f"{group}_{part}"
            chain = self.chain if part == "first" else Chain(self.chain.builder, self.chain.tasks[-1:])
            chain.add(f"indices_{name}", stream, job.indices(source, part).call_of_trainers(sends=True), FORWARD)
            chain.add(f"vectors_{name}", stream, job.vectors(source, part).call_of_trainers(sends=False), FORWARD)
            if part == "others":
                self.chain.builder.depend(first, chain.tasks[-1], lag=1)
        received = self._handling(0, float(job.requests.vector_bytes.sum()))
        self.chain.add(f"receive_vectors_{group}", self._threads, received, FORWARD)

    def _send_gradients(self) -> None:
        job, group = self.job, self._group
        sent = self._handling(job.settings.sparse_servers, float(job.requests.gradient_bytes.sum()))
        first = self.chain.add(f"send_gradients_{group}", self._threads, sent, BACKWARD)
        for part in job.parts:
            stream, call = f"{part}_{group}", job.gradients(self.source, part).call_of_trainers(sends=True)
            chain = self.chain if part == "first" else Chain(self.chain.builder, self.chain.tasks[-1:])
            chain.add(f"gradients_{group}_{part}", stream, call, BACKWARD)
            if part == "others":
                self.chain.builder.depend(first, chain.tasks[-1], lag=1)

    def _read(self) -> int:
        call = self.job.batches(self.source).call_of_trainers(sends=False)
        return self.chain.builder.task(f"batch_{self._group}", f"read_{self._group}", call, section="input")

    def _handling(self, calls: int, size: float) -> HostWork:
        return handling(calls, size, self.job.settings.crowding)

    @property
    def _group(self) -> int:
        return self.source.group

    @property
    def _threads(self) -> str:
        """Stream of the group's computing."""
        return f"threads_{self.source.group}"
